#include "planners/online/parallelism_router.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "models/base/errors.hpp"
#include "planners/analytic_evaluator.hpp"
#include "planners/registry.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/tutel_table5.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// 2 nodes x 4 GPUs with round costs: experts in 4 shards inside nodes.
Experiment sharded() {
  Experiment e = test::round_numbers();
  e.cluster.gpus_per_node = 4;
  e.model.experts = 8;
  e.parallelism = {.dp = 8, .mp = 1, .ep = 2, .esp = 4, .pp = 1, .edp = 1};
  return e;
}

}  // namespace

TEST_CASE("parallelism_router makes 11 of Tutel's 11 published choices") {
  for (std::size_t i = 0; i < test::tutel_table5.size(); ++i) {
    const test::ShardingSetting& s = test::tutel_table5[i];
    INFO("setting " << i);
    const int shards = 8 / s.experts;
    const Bytes row(4.0 * 2048), parameters = row * (2.0 * s.expert_hidden);
    CHECK(repeats_rows(shards, row * (s.capacity_factor * s.tokens), parameters) == s.repeats_rows);
    // The same as lines over the capacity factor, at a second per byte.
    const Seconds rows(row.value() * s.tokens);
    ParallelismRouter router(
        {{"ep_dp", "ep_mp"}, "", 1, {{Seconds(parameters.value()), rows}, {Seconds(0), rows * shards}}});
    CHECK((router.choose({s.capacity_factor}) == 1) == s.repeats_rows);
  }
  // The first by hand: y = 2K rows of 2K elements = 4 Mi; 4 y = 16 Mi < y + 2 * 2K * 8K = 36 Mi.
  CHECK(repeats_rows(4, Bytes(4), Bytes(32)));
  CHECK_FALSE(repeats_rows(4, Bytes(16), Bytes(32)));  // f = 4: 64 against 48
}

TEST_CASE("the plans that a router chooses among: every way to shard that the experiment allows") {
  std::vector<std::string> names;
  for (const Plan& plan : sharding_plans(sharded(), test::moe_plan())) names.push_back(sharding_name(plan));
  CHECK(names == std::vector<std::string>{"ep", "ep_dp", "ep_mp 2", "ep_mp 4"});
  Experiment whole = test::round_numbers();
  whole.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  CHECK(sharding_plans(whole, test::moe_plan()) == std::vector<Plan>{test::moe_plan()});
}

TEST_CASE("the router's lines are the links' times, and cross where weights become cheaper than rows") {
  Experiment e = sharded();
  e.model.hidden = 64;
  e.model.attention.head_size = 32;
  e.model.expert_hidden = 2048;
  e.workload.sequence = 1024;
  const std::vector<Plan> plans = sharding_plans(e, test::moe_plan());
  OnlineSettings settings;
  for (const Plan& plan : plans) {
    settings.strategies.push_back(sharding_name(plan));
    settings.lines.push_back(link_line(e, plan));
    for (double f : {.25, 1.0, 2.0}) {  // k f T / E is a whole number
      Experiment at = e;
      at.workload.capacity_factor = f;
      CHECK(link_time(at, plan) / settings.lines.back().at(f) == Approx(1).epsilon(1e-9));
    }
  }
  // Gathered weights cost the same at any load; rows do not.
  CHECK(settings.lines[1].fixed > settings.lines[3].fixed);
  CHECK(settings.lines[1].per_load < settings.lines[3].per_load);
  ParallelismRouter router(settings);
  CHECK(settings.strategies[router.choose({1e-3})] == "ep_mp 4");
  CHECK(settings.strategies[router.choose({1e3})] == "ep_dp");
  CHECK_THROWS_WITH(ParallelismRouter({{"a", "b"}, "", 1, {{}}}), Catch::Contains("1 lines for 2 strategies"));
}

TEST_CASE("parallelism_router as a planner takes the least time on the links and says what that costs") {
  const Experiment e = sharded();
  const Evaluator evaluate = analytic_evaluator(e);
  const PlanChoice choice = find_planner("parallelism_router").choose({e, test::moe_plan(), {}}, evaluate);
  double least = 1e300, best = 1e300;
  for (const Plan& plan : sharding_plans(e, test::moe_plan())) {
    least = std::min(least, link_time(e, plan).value());
    best = std::min(best, evaluate(plan).value());
  }
  CHECK(link_time(e, choice.plan).value() == least);
  CHECK(choice.report.regret.value() == Approx(evaluate(choice.plan).value() / best - 1).margin(1e-12));
  CHECK(choice.report.evaluations == 4);
  CHECK_THAT(choice.report.reason, Catch::Contains("ep_mp 4") && Catch::Contains("MiB"));
}
