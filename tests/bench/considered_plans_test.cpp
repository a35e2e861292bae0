// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/considered_plans.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

ValidationGrid grid_of(const std::vector<std::string>& systems) {
  FilesRead files;
  ValidationGrid grid;
  for (const std::string& name : systems) grid.systems.push_back({load_system(name, files), {}});
  return grid;
}

}  // namespace

TEST_CASE("considered plans: all that planners look at, and which of them they choose") {
  const Experiment e = test::round_numbers(1);
  std::vector<std::string> notes;
  const ValidationCell cell = considered_plans(grid_of({"tutel", "fsmoe"}), GridSize(), "small", e, notes);
  CHECK(cell.name == "small");
  CHECK(notes.empty());
  REQUIRE(cell.choices.size() == 2);
  for (const ChoiceOutcome& choice : cell.choices) {
    REQUIRE(choice.plan < cell.plans.size());
    CHECK(cell.plans[choice.plan].system == choice.system);
    for (const PlanOutcome& plan : cell.plans)
      if (plan.system == choice.system) CHECK(cell.plans[choice.plan].predicted <= plan.predicted * (1 + 1e-12));
  }
}

TEST_CASE("considered plans: a grid may ask for the fastest and the choices alone") {
  const Experiment e = test::round_numbers(1);
  ValidationGrid grid = grid_of({"tutel"});
  std::vector<std::string> notes;
  const std::size_t all = considered_plans(grid, GridSize(), "small", e, notes).plans.size();
  REQUIRE(all > 1);
  grid.measured_plans = 1;
  const ValidationCell few = considered_plans(grid, GridSize(), "small", e, notes);
  REQUIRE(few.plans.size() == 1);  // the fastest is the choice
  CHECK(few.choices.front().plan == 0);
  CHECK(few.looked_at == all);
}

TEST_CASE("considered plans: a system may have planners of its own, and a size asks some systems only") {
  const Experiment e = test::round_numbers(1);
  ValidationGrid grid = grid_of({"tutel", "fsmoe"});
  grid.systems.front().planners = {"granularity_search"};
  GridSize size;
  size.systems = {"tutel"};
  std::vector<std::string> notes;
  const ValidationCell cell = considered_plans(grid, size, "small", e, notes);
  REQUIRE(cell.choices.size() == 2);
  CHECK(cell.choices[0].planner == "exhaustive");
  CHECK(cell.choices[1].planner == "granularity_search");
  CHECK(cell.choices[1].system == "tutel");
}

TEST_CASE("considered plans: all strategies of a planner that learns are measured, where sizes differ in tokens") {
  const Experiment e = test::round_numbers(1);
  ValidationGrid grid = grid_of({"tutel"});
  std::vector<std::string> notes;
  const GridSize small;
  const std::size_t all = considered_plans(grid, small, "small", e, notes).plans.size();
  grid.measured_plans = 1;
  grid.online = {{"bucketed_search", "tutel"}};
  grid.predict = {small};
  CHECK(considered_plans(grid, small, "small", e, notes).plans.size() == 1);
  grid.predict.push_back(small);
  grid.predict.back().scale.tokens_per_rank *= 2;
  CHECK(considered_plans(grid, small, "small", e, notes).plans.size() == all);
}

TEST_CASE("considered plans: a planner that refuses a system is left out with its reason") {
  const Experiment e = test::round_numbers(1);
  ValidationGrid grid = grid_of({"tutel"});
  grid.systems.front().system.planner.degrees.clear();
  std::vector<std::string> notes;
  const ValidationCell cell = considered_plans(grid, GridSize(), "small", e, notes);
  CHECK(cell.choices.empty());
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes.front(), Catch::Contains("tutel by exhaustive") && Catch::Contains("left out, "));
}
