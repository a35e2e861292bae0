// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/outputs.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <ostream>
#include <stdexcept>

#include "bench/cli/interrupt.hpp"
#include "models/base/errors.hpp"
#include "models/files/data_path.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

void write_x(std::ostream& out) {
  out << std::string(200'000, 'x');  // more than one buffer
}

std::vector<std::string> files_here() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(".")) names.push_back(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("several outputs are written whole") {
  const test::TemporaryFolder folder;
  write_all({{"a", write_x}, {"b", [](std::ostream& out) { out << "b"; }}});
  CHECK(std::filesystem::file_size("a") == 200'000);
  CHECK(std::filesystem::file_size("b") == 1);
}

TEST_CASE("when one output fails none is left, and what was there stays") {
  const test::TemporaryFolder folder;
  folder.write("a", "old");
  const auto fail = [](std::ostream& out) {
    write_x(out);
    throw std::runtime_error("no");
  };
  CHECK_THROWS_WITH(write_all({{"a", write_x}, {"b", fail}}), "no");
  CHECK(files_here() == std::vector<std::string>{"a"});
  CHECK(std::filesystem::file_size("a") == 3);
}

TEST_CASE("a signal while something is written removes the temporary file first") {
  const test::TemporaryFolder folder;
  install_stop_signals();
  const auto interrupted = [](std::ostream& out) {
    std::raise(SIGTERM);
    write_x(out);
  };
  CHECK_THROWS_AS(write_all({{"a", interrupted}}), Stopped);
  CHECK(files_here().empty());
  std::signal(SIGTERM, SIG_DFL);
}

TEST_CASE("outputs are checked before any work") {
  const test::TemporaryFolder folder;
  Options options;
  options.output = "result.json";
  CHECK_NOTHROW(Outputs(options, {}));
  CHECK(files_here().empty());
  options.html = "./result.json";
  CHECK_THROWS_AS(Outputs(options, {}), InputError);
  options.html = "nowhere/x.html";
  CHECK_THROWS_AS(Outputs(options, {}), InputError);
}

TEST_CASE("no output is an input, and others of the command count") {
  const test::TemporaryFolder folder;
  folder.write("in.json", "x");
  Options options;
  options.output = "./in.json";
  CHECK_THROWS_AS(Outputs(options, {{"in.json", "x"}}), InputError);
  CHECK_THROWS_AS(Outputs(options, {}, {{}, {"in.json"}}), InputError);
  CHECK_THROWS_AS(Outputs(options, {}, {{{"--save-plan", "in.json"}}, {}}), InputError);
  options.platform = "in.json";
  CHECK_THROWS_AS(Outputs(options, {}), InputError);
  options.platform.clear();
  options.output = (data_directory() / "models" / "mixtral-8x7b.json").string();
  CHECK_THROWS_AS(Outputs(options, {{"data/models/mixtral-8x7b.json", "x"}}), InputError);
}

TEST_CASE("an input that was read later is not replaced either") {
  const test::TemporaryFolder folder;
  folder.write("late.json", "old");
  Options options;
  options.output = "late.json";
  options.quiet = true;
  FilesRead read;
  const Outputs outputs(options, read);
  read["late.json"] = "old";
  CHECK_THROWS_AS(outputs.write(Writers{{}, write_x, {}, {}, {}}), InputError);
  CHECK(std::filesystem::file_size("late.json") == 3);
}

TEST_CASE("devices and pipes keep nothing") {
  const test::TemporaryFolder folder;
  folder.write("a", "x");
  CHECK(is_kept("a"));
  CHECK(is_kept("new"));
  for (const char* not_kept : {"", "-", "/dev/null", "."}) CHECK_FALSE(is_kept(not_kept));
}
