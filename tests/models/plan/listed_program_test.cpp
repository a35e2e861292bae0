// SPDX-License-Identifier: Apache-2.0
#include "models/plan/listed_program.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/plan/program.hpp"
#include "models/plan/program_text.hpp"

using namespace dovetail;
using Catch::Contains;

namespace {

ListedProgram listed(const std::vector<std::string>& lines) {
  std::vector<std::vector<Slot>> ranks;
  for (const std::string& line : lines) ranks.push_back(read_slots(line));
  return ListedProgram(std::move(ranks));
}

// "5: what is wrong" with the first column of the word.
std::string complaint(const std::string& line) {
  try {
    read_slots(line);
  } catch (const SlotError& error) {
    return std::to_string(error.offset + 1) + ": " + error.message;
  }
  return "";
}

}  // namespace

TEST_CASE("A line of a listed program has units and pairs, with blanks or commas between them") {
  const std::vector<Slot> slots{{{UnitKind::Forward, 0, 0}},
                                {{UnitKind::Forward, 0, 10}, Unit{UnitKind::Backward, 3, 0}},
                                {{UnitKind::InputGradient, 3, 1}},
                                {{UnitKind::WeightGradient, 3, 1}}};
  CHECK(to_text(slots) == "0F0 (0F10;3B0) 3I1 3W1");
  CHECK(read_slots("0F0 (0F10;3B0) 3I1 3W1") == slots);
  // PyTorch's own file has commas, and nothing between two of them where a rank waits.
  CHECK(read_slots("0F0,,(0F10;3B0)OVERLAP_F_B,3I1,,3W1\r") == slots);
  CHECK(read_slots(" \t").empty());
}

TEST_CASE("A word of a listed program that is none is told with its place") {
  CHECK(complaint("0F0 0X1") ==
        "5: \"0X1\", expected a stage, a letter of F, B, I or W, and a micro-batch, such as 0F3");
  CHECK_THAT(complaint("0F"), Contains("1: \"0F\", expected a stage"));
  CHECK_THAT(complaint("F0"), Contains("1: \"F0\", expected a stage"));
  CHECK_THAT(complaint("0F1x"), Contains("1: \"0F1x\", expected a stage"));
  CHECK_THAT(complaint("0F99999999999"), Contains("expected a stage"));
  CHECK_THAT(complaint("0F-1"), Contains("expected a stage"));
  CHECK_THAT(complaint("0UNSHARD"), Contains("expected a stage"));
  CHECK(complaint("0F0 (0F1,0B0)") == "5: \"(0F1\", expected (1F4;2B0)");
  CHECK_THAT(complaint("(0F1;0B0"), Contains("expected (1F4;2B0)"));
  CHECK(complaint("(0F1;0F2)") ==
        "1: \"(0F1;0F2)\", expected a forward unit and a backward one (B or I) beside each "
        "other");
  CHECK_THAT(complaint("(0F1;0W0)"), Contains("a forward unit and a backward one"));
}

TEST_CASE("Every named program is the same once it has been listed and read") {
  for (const NamedProgram& named : named_programs) {
    if (named.name == "listed") continue;
    CAPTURE(named.name);
    const PipelineSchedule schedule{static_cast<std::uint8_t>(&named - named_programs.data())};
    const int laps = named.shape == StageShape::One ? 1 : 2;
    const Program program = make_program(schedule, 4, 8, laps);
    std::vector<std::string> lines;
    for (const std::vector<Slot>& slots : program.ranks) lines.push_back(to_text(slots));
    const ListedProgram read = listed(lines);
    CHECK(read.lines() == lines);
    CHECK(read == ListedProgram(program.ranks));
    CHECK(read.program().rank_of == program.rank_of);
    CHECK(read.program().pipelines == program.pipelines);
    CHECK(read.ranks() == 4);
    CHECK(read.micro_batches() == 8);
    CHECK(read.laps() == laps);
    CHECK(read.entry().shape == named.shape);
    CHECK(read.entry().halves == named.halves);
    CHECK(read.entry().pairs == named.name.starts_with("dualpipe"));
  }
  CHECK(ListedProgram().empty());
  CHECK_FALSE(ListedProgram() == listed({"0F0 0B0"}));
}

TEST_CASE("A listed program that cannot run is refused") {
  CHECK_THROWS_WITH(listed({}), Contains("no units, expected a line for each rank"));
  CHECK_THROWS_WITH(listed({"0F0 0F1 0B0"}), Contains("a micro-batch lacks a pass"));
  CHECK_THROWS_WITH(listed({"0F0 0B0 0B0"}), "rank 0: 0B0 was done before");
  CHECK_THROWS_WITH(listed({"0F0 0I0 0B0"}), "rank 0: 0B0 was done before");
  CHECK_THROWS_WITH(listed({"0F0 0B0", "1B0 1F0"}), "rank 0 waits for ever to begin 0B0");
  CHECK_THROWS_WITH(listed({"0F0 0W0 0I0"}), "rank 0 waits for ever to begin 0W0");
  CHECK_THROWS_WITH(listed({"0F0 0B0", "0F1 0B1"}), "rank 0: 0F0 is of no stage or micro-batch of this rank");
  CHECK_THROWS_WITH(listed({"0F0 1000000F0 0B0"}),
                    "3 units for 1000001 stages and 1 micro-batches, expected a forward and a backward pass of "
                    "each micro-batch through each stage");
  CHECK_THROWS_WITH(listed({"1F0 1B0", "0F0 0B0"}),
                    "the ranks of the stages are 1 0, expected 0 to 1 in turn, or "
                    "with two stages a rank there and back");
  // Each stage has one of two micro-batches, but both begin on rank 0.
  CHECK_THROWS_WITH(listed({"0F0 1F1 1B1 0B0"}),
                    "the ranks of the stages of two pipelines are 0 0, expected 0 to 0 and back to 0, of two ranks "
                    "or more");
  CHECK_THROWS_WITH(listed({"0F0 0B0", ""}), Contains("the ranks of the stages are 0"));
}
