// SPDX-License-Identifier: Apache-2.0
#include "models/files/load_program.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::StartsWith;

namespace {

ListedProgram program_of(const std::string& plan_file) {
  FilesRead files;
  return load_plan(plan_file, files).plan.program;
}

std::string refusal(const std::string& plan_file) {
  try {
    program_of(plan_file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("A program is a list of lines, or a file of lines beside the file that names it") {
  const test::TemporaryFolder folder;
  folder.write("plans/lines.json", R"({"program": ["0F0 (0F1;0B0) 0I1 0W1"]})");
  folder.write("plans/file.json", R"({"program": "mine.csv"})");
  folder.write("plans/mine.csv", "# one rank\n\n0F0,,(0F1;0B0)OVERLAP_F_B,0I1,0W1\r\n");
  const std::vector<std::string> lines{"0F0 (0F1;0B0) 0I1 0W1"};
  CHECK(program_of("plans/lines.json").lines() == lines);
  CHECK(program_of("plans/file.json") == program_of("plans/lines.json"));
  folder.write("none.json", R"({"program": []})");
  CHECK(program_of("none.json").empty());
  Plan plan;  // an option's path is relative to the folder in which the command runs
  set_knobs({"plan.program=plans/mine.csv"}, "--alternate", plan);
  CHECK(plan.program.lines() == lines);
}

TEST_CASE("What is wrong with a program is told with its place") {
  const test::TemporaryFolder folder;
  folder.write("word.json", R"({"program": ["0F0 0B0", "1F0 1C0"]})");
  CHECK_THAT(refusal("word.json"),
             StartsWith("word.json:1:25: /program/1: \"1C0\", expected a stage, a letter of F, B,"));
  folder.write("order.json", R"({"program": ["0B0 0F0"]})");
  CHECK(refusal("order.json") == "order.json:1:13: /program: rank 0 waits for ever to begin 0B0");
  folder.write("type.json", R"({"program": 7})");
  CHECK_THAT(refusal("type.json"), StartsWith("type.json:1:13: /program: "));
  folder.write("file.json", R"({"program": "mine.csv"})");
  CHECK_THAT(refusal("file.json"), StartsWith("mine.csv: cannot be read"));
  folder.write("mine.csv", "0F0 0B0\n  1F0 1C0\n");
  CHECK_THAT(refusal("file.json"), StartsWith("mine.csv:2:7: \"1C0\", expected a stage"));
  folder.write("mine.csv", "0F0\n");
  CHECK(refusal("file.json") == "none");  // forward alone
  folder.write("mine.csv", "0F0 0B0 0B0\n");
  CHECK(refusal("file.json") == "mine.csv: rank 0: 0B0 was done before");
  folder.write("mine.csv", "# nothing\n");
  CHECK_THAT(refusal("file.json"), StartsWith("mine.csv: no units"));
}
