// SPDX-License-Identifier: Apache-2.0
// How far a step may be off because costs are.
#include "models/results/step_range.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/base/provenance.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

std::shared_ptr<const Schedule> schedule_of(const Experiment& e, int degree) {
  Plan plan;
  plan.forward_degree = plan.backward_degree = degree;
  if (degree > 1) plan.scope = Scope::Moe;
  return std::make_shared<const Schedule>(build_schedule(e, plan));
}

// All costs are known exactly.
Experiment exact() {
  Experiment e = test::round_numbers();
  Calibration& c = e.calibration.edit();
  for (CollectiveCost& cost : c.collectives) cost.provenance = {Origin::Published, "made up", false, nullptr, 1};
  for (GemmCost& cost : c.gemms) cost.provenance = {Origin::Published, "made up", false, nullptr, 1};
  c.memory.provenance = c.copy->provenance = {Origin::Published, "made up", false, nullptr, 1};
  return e;
}

}  // namespace

TEST_CASE("a step whose costs are exact has no range") {
  const Experiment e = exact();
  const std::vector<std::shared_ptr<const Schedule>> schedules{schedule_of(e, 1)};
  const StepRange range = step_ranges(e, schedules, 50, 1).front();
  CHECK(range.low == Approx(1));
  CHECK(range.high == Approx(1));
  CHECK(range.costs.empty());
  CHECK(range.draws.size() == 50);
}

TEST_CASE("what a framework does beside what is counted makes a step longer, and never shorter") {
  Experiment e = exact();
  e.framework.left_out = 1.2;
  const std::vector<std::shared_ptr<const Schedule>> schedules{schedule_of(e, 1), schedule_of(e, 2)};
  const std::vector<StepRange> ranges = step_ranges(e, schedules, 2000, 1);
  // |z| of a normal z is below .0627 in 5 of 100 draws and below 1.96 in 95, and 1.2 stands for 1.645.
  CHECK(ranges[0].low == Approx(std::pow(1.2, .0627 / 1.645)).epsilon(.003));
  CHECK(ranges[0].high == Approx(std::pow(1.2, 1.96 / 1.645)).epsilon(.01));
  CHECK(*std::ranges::min_element(ranges[0].draws) >= 1);
  CHECK(ranges[0].draws == ranges[1].draws);  // of whatever plan
  REQUIRE(ranges[0].costs.size() == 1);
  CHECK(ranges[0].costs.front().cost == "what is not counted");
  CHECK(ranges[0].costs.front().slow == 1.2);
  CHECK_THAT(range_note(e.framework, "step", 50), Catch::Contains("of up to 20 % for what is not counted"));
  CHECK_THAT(range_note({}, "step", 50), Catch::Contains("what the model leaves out is not in it"));
}

TEST_CASE("a step is as unsure as its share of an unsure cost") {
  Experiment e = exact();
  Calibration& c = e.calibration.edit();
  for (CollectiveCost& cost : c.collectives)
    if (cost.collective == Collective::AllToAll) cost.provenance.within = 1.2;
  const std::vector<std::shared_ptr<const Schedule>> schedules{schedule_of(e, 1)};
  const StepRange range = step_ranges(e, schedules, 400, 1).front();
  // Nothing overlaps at degree 1. Each collective and product costs about 1 ms of latency: the step is the sum over its
  // ops, of which four are all-to-alls. If `share` is theirs, the step is 1 + share (1.2 - 1) at the slow end.
  double all = 0, exchanges = 0;
  for (const Op& op : schedules.front()->ops) {
    const double ms = op.kernel() != nullptr ? op.kernel()->gemms : op.exchange() != nullptr ? 1 : 0;
    all += ms;
    if (op.collective() == Collective::AllToAll) exchanges += ms;
  }
  REQUIRE(range.costs.size() == 1);
  const CostInfluence& cost = range.costs.front();
  CHECK(cost.cost == "all_to_all between nodes");
  CHECK(cost.slow == Approx(1 + .2 * exchanges / all).epsilon(1e-3));
  CHECK(cost.fast == Approx(1 - (1 - 1 / 1.2) * exchanges / all).epsilon(1e-3));
  // One cost alone: nine of ten draws lie between its ends.
  CHECK(range.low == Approx(cost.fast).epsilon(.01));
  CHECK(range.high == Approx(cost.slow).epsilon(.01));
}

TEST_CASE("all steps of a question see the same draws, and the same seed gives the same") {
  const Experiment e = test::round_numbers();
  const std::vector<std::shared_ptr<const Schedule>> schedules{schedule_of(e, 1), schedule_of(e, 2), schedule_of(e, 1)};
  const std::vector<StepRange> ranges = step_ranges(e, schedules, 40, 3);
  CHECK(ranges[0].draws == ranges[2].draws);
  CHECK(ranges[0].draws != ranges[1].draws);
  CHECK(step_ranges(e, schedules, 40, 3)[1].draws == ranges[1].draws);
  CHECK(step_ranges(e, schedules, 40, 4)[1].draws != ranges[1].draws);
  CHECK(ranges[0].low < 1);
  CHECK(ranges[0].high > 1);
  CHECK(ranges[0].costs.size() == 3);
  CHECK(ranges[0].costs[0].width() >= ranges[0].costs[1].width());
}

TEST_CASE("long schedules get fewer draws, but at least twenty") {
  const Experiment e = test::round_numbers();
  const std::vector<std::shared_ptr<const Schedule>> one{schedule_of(e, 1)};
  CHECK(affordable_draws(one, 200) == 200);
  const std::vector<std::shared_ptr<const Schedule>> many(5'000'000 / one.front()->ops.size() / 50, one.front());
  CHECK(affordable_draws(many, 200) == Approx(50).margin(1));
  CHECK(affordable_draws(std::vector(5'000'000 / one.front()->ops.size(), one.front()), 200) == 20);
}
