// SPDX-License-Identifier: Apache-2.0
// Planners that learn, replayed over times that are made up.
#include "bench/validate/online_replay.hpp"

#include <catch2/catch.hpp>

#include "bench/validate/grid_size.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

PlanOutcome took(int degree, double seconds) {
  PlanOutcome plan;
  plan.system = "tutel";
  plan.plan.forward_degree = plan.plan.backward_degree = degree;
  plan.samples = {Seconds(seconds), Seconds(seconds)};
  plan.median = Seconds(seconds);
  return plan;
}

struct TwoSizes {
  ValidationGrid grid;
  ValidationCell small, large;
  std::vector<MeasuredSize> measured;

  TwoSizes() {
    grid.predict.resize(2);
    grid.predict[0].scale.tokens_per_rank = 100;
    grid.predict[1].scale.tokens_per_rank = 400;
    small.plans = {took(1, 1), took(2, 2)};
    large.plans = {took(2, 4), took(1, 8)};
    measured = {{&grid.predict[0], &small}, {&grid.predict[1], &large}};
    grid.online = {{"bucketed_search", "tutel"}};
  }
};

}  // namespace

TEST_CASE("online replay: a planner that has tried everything takes the fastest plan at each size") {
  const TwoSizes two;
  const std::vector<OnlineOutcome> outcomes = replay_online(two.grid, two.measured, 1);
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].planner == "bucketed_search");
  CHECK(outcomes[0].sizes == 2);
  CHECK(outcomes[0].strategies == 2);
  CHECK(outcomes[0].late_regret == 0);
  CHECK(outcomes[0].low <= outcomes[0].regret);
  CHECK(outcomes[0].regret <= outcomes[0].high);
  // A try at each size costs at most 1 s and 4 s of about 1,000 steps of 2.5 s.
  CHECK(outcomes[0].high > 0);
  CHECK(outcomes[0].high < .004);
}

TEST_CASE("online replay: sizes must differ in their tokens alone, and share two plans") {
  TwoSizes two;
  two.grid.predict[1].link_slowdown = 4;
  CHECK(replay_online(two.grid, two.measured, 1).empty());
  two.grid.predict[1].link_slowdown = 1;
  two.large.plans.pop_back();
  CHECK(replay_online(two.grid, two.measured, 1).empty());
}

TEST_CASE("size names: what all sizes share can be left out") {
  GridSize a, b;
  a.scale.tokens_per_rank = 64;
  a.scale.ep = 4;
  b = a;
  b.link_slowdown = 4;
  b.set = {"workload.routing.kind=hot"};
  CHECK(size_name(a) == "4 ranks, 64 tokens, hidden 128 and 256, ep 4, 1 layer");
  const SizeParts shared = shared_parts({size_parts(a), size_parts(b)});
  CHECK(name_without(size_parts(a), shared).empty());
  CHECK(name_without(size_parts(b), shared) == "links x 4, kind=hot");
}
