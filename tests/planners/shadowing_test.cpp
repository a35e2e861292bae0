// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/load_trace.hpp"
#include "models/question/capacity.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/closed_form/shadow_latency.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// round_numbers on `ranks` nodes of one GPU, without latencies; as many rows as choices need.
Experiment expert_parallel(int ranks, int experts, RoutingModel routing) {
  Experiment e = test::round_numbers();
  e.cluster.nodes = ranks;
  e.cluster.gpus_per_node = 1;
  e.model.experts = experts;
  e.parallelism = {.dp = ranks, .mp = 1, .ep = ranks, .esp = 1, .pp = 1, .edp = 1};
  for (CollectiveCost& c : e.calibration.edit().collectives) c.alpha = {};
  e.calibration.edit().gemms.front().alpha = {};
  e.workload.capacity_factor = 0;
  e.workload.routing = std::move(routing);
  resolve_capacity(e);
  return e;
}

RoutingModel hot(double share) {
  RoutingModel routing;
  routing.kind = RoutingKind::Hot;
  routing.hot_share = share;
  return routing;
}

PlanChoice choose(const Experiment& e, const Plan& base) {
  return find_planner("shadowing").choose({e, base, {"shadowing", {1}, true}}, analytic_evaluator(e));
}

// The fastest of all sets of experts that leave one.
double best_of_all_sets(const Experiment& e) {
  const Evaluator evaluate = analytic_evaluator(e);
  double best = 1e300;
  for (int set = 0; set + 1 < 1 << e.model.experts; ++set) {
    Plan plan = test::moe_plan();
    for (int expert = 0; expert < e.model.experts; ++expert)
      if ((set >> expert & 1) != 0) plan.shadowed_experts.push_back(expert);
    best = std::min(best, evaluate(plan).value());
  }
  return best;
}

}  // namespace

// 16 tokens with 2 choices on each of 4 ranks: 16 for expert 0, which is all that a rank has; 6, 5, 5 for the others.
TEST_CASE("FasterMoE's latency, worked") {
  const Experiment e = expert_parallel(4, 4, hot(.5));
  const ShadowLatency latency(e, test::moe_plan());
  CHECK(latency.by_load() == std::vector{0, 1, 2, 3});
  CHECK(latency.imbalance() == Approx(16 / 8.));
  // A row: 2 GEMMs of 8 x 16 at 1 ps/flop forward, thrice; 32 bytes at 1 ns, four times.
  const double row = 3 * 2 * (2 * 8 * 16 * 1e-12) + 4 * 32e-9;
  const double expert = 2 * (2 * 8 * 16 * 4 * 1e-9);  // there and back
  CHECK(latency.of(0).value() == Approx(4 * 16 * row));
  CHECK(latency.of(1).value() == Approx((16 + 4 * 6) * row + expert));
  CHECK(latency.of(2).value() == Approx((16 + 6 + 4 * 5) * row + 2 * expert));
  CHECK(latency.experts_to_shadow() == 1);
  CHECK(ShadowLatency(expert_parallel(4, 4, hot(.25)), test::moe_plan()).experts_to_shadow() == 0);
}

TEST_CASE("shadowing: nothing where choices are uniform or nothing can be shadowed") {
  CHECK(choose(expert_parallel(4, 8, {}), test::moe_plan()).plan == test::moe_plan());
  const PlanChoice sharded = choose(test::testbed_b(1), test::moe_plan());
  CHECK(sharded.plan == test::moe_plan());
  CHECK_THAT(sharded.report.reason, Catch::Contains("esp is 4"));
}

TEST_CASE("shadowing: as fast as the best of all sets, for random loads") {
  std::mt19937 engine(41);
  int shadowed = 0;
  const int cases = test::cases(1000);
  for (int i = 0; i < cases; ++i) {
    RoutingModel routing;
    routing.kind = RoutingKind::Trace;
    const int ranks = 1 << test::integer(engine, 1, 3), experts = std::max(ranks, 4 * test::integer(engine, 1, 2));
    const double skew = test::real(engine, 0, 6);
    std::vector<double> popularity;
    for (int expert = 0; expert < experts; ++expert) popularity.push_back(std::exp(skew * test::real(engine, 0, 1)));
    routing.layers.resize(1);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<double>& loads = routing.layers.front().emplace_back();
      for (double p : popularity) loads.push_back(p * test::real(engine, .8, 1.2));
    }
    Experiment e = expert_parallel(ranks, experts, routing);
    e.workload.sequence = 64;
    resolve_capacity(e);
    test::scale_costs(e.calibration.edit(), engine);
    const Evaluator evaluate = analytic_evaluator(e);
    const PlanChoice choice = choose(e, test::moe_plan());
    INFO("case " << i << ": " << choice.report.reason);
    REQUIRE(evaluate(choice.plan).value() == Approx(best_of_all_sets(e)).epsilon(1e-12));
    shadowed += choice.plan.shadowed_experts.empty() ? 0 : 1;
  }
  CHECK(shadowed > cases / 10);
  CHECK(shadowed < cases);
}

TEST_CASE("shadowing: the shipped trace's skewed step") {
  FilesRead files;
  const std::vector<TraceStep> steps = load_trace("skewed-8-experts", files);
  RoutingModel routing;
  routing.kind = RoutingKind::Trace;
  for (std::size_t step : {0u, 1u}) {
    routing.layers = steps[step].layers;
    Experiment e = expert_parallel(4, 8, routing);
    e.workload.layers = e.model.layers = 2;
    const ShadowLatency latency(e, test::moe_plan());
    INFO("step " << step);
    if (step == 1) CHECK(latency.by_load().front() == 3);
    CHECK((latency.experts_to_shadow() > 0) == (step == 1));
    CHECK(analytic_evaluator(e)(choose(e, test::moe_plan()).plan) <= analytic_evaluator(e)(test::moe_plan()));
  }
}
