// SPDX-License-Identifier: Apache-2.0
#include "planners/online/parallelism_router.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "models/base/errors.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
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

// As many times the tokens at factor 1 are the rows of a published setting.
Experiment published(const test::ShardingSetting& s) {
  return test::tutel_layer(s, static_cast<int>(s.capacity_factor) * s.tokens);
}

}  // namespace

TEST_CASE("parallelism_router makes 11 of Tutel's 11 published choices, all at once and step by step") {
  for (std::size_t i = 0; i < test::tutel_table5.size(); ++i) {
    const test::ShardingSetting& s = test::tutel_table5[i];
    INFO("setting " << i);
    const Experiment e = published(s);
    Plan gathered = test::moe_plan(), repeated = test::moe_plan();  // Tutel's P1 and P2
    gathered.expert_sharding = ExpertSharding::EpDp;
    repeated.expert_sharding = ExpertSharding::EpMp;
    CHECK((moved_size(e, repeated) < moved_size(e, gathered)) == s.repeats_rows);
    ParallelismRouter router({{"P1", "P2"}, "", 1, {size_line(e, gathered), size_line(e, repeated)}});
    CHECK((router.choose({1}) == 1) == s.repeats_rows);
  }
}

TEST_CASE("what a sharding moves, by hand") {
  // 2K rows of 2K elements are 4 Mi, 16 MiB; an expert has 2 x 2K x 8K elements, 128 MiB.
  const Experiment e = published(test::tutel_table5.front());
  const auto mebibytes = [&](ExpertSharding sharding, int repeats) {
    Plan plan = test::moe_plan();
    plan.expert_sharding = sharding;
    plan.sharding_repeats = repeats;
    return moved_size(e, plan).value() / (1 << 20);
  };
  CHECK(mebibytes(ExpertSharding::EpDp, 0) == Approx(16 + 128));
  CHECK(mebibytes(ExpertSharding::EpMp, 4) == Approx(4 * 16));
  CHECK(mebibytes(ExpertSharding::EpMp, 2) == Approx(2 * 16 + 128 / 2));  // each of two ranks gathers half an expert
  CHECK(mebibytes(ExpertSharding::Ep, 0) == Approx(16 + 4 * 16));         // rows of four ranks are gathered
}

TEST_CASE("the plans that a router chooses among: every way to shard that the experiment allows") {
  std::vector<std::string> names;
  for (const Plan& plan : sharding_plans(sharded(), test::moe_plan())) names.push_back(sharding_name(plan));
  CHECK(names == std::vector<std::string>{"ep", "ep_dp", "ep_mp 2", "ep_mp 4"});
  Experiment whole = test::round_numbers();
  whole.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  CHECK(sharding_plans(whole, test::moe_plan()) == std::vector<Plan>{test::moe_plan()});
}

TEST_CASE("the router's lines are sizes, and cross where weights become cheaper than rows") {
  Experiment e = sharded();
  e.model.hidden = 64;
  e.model.attention.head_size = 32;
  e.model.expert_hidden = 2048;
  e.workload.sequence = 1024;
  const std::vector<Plan> plans = sharding_plans(e, test::moe_plan());
  OnlineSettings settings;
  for (const Plan& plan : plans) {
    settings.strategies.push_back(sharding_name(plan));
    settings.lines.push_back(size_line(e, plan));
    for (double f : {.25, 1.0, 2.0}) {  // k f T / E is a whole number
      Experiment at = e;
      at.workload.capacity_factor = f;
      CHECK(moved_size(at, plan) / settings.lines.back().at(f) == Approx(1).epsilon(1e-9));
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

TEST_CASE("parallelism_router as a planner moves least and says what that costs") {
  const Experiment e = sharded();
  const Evaluator evaluate = analytic_evaluator(e);
  const PlanChoice choice = find_planner("parallelism_router").choose({e, test::moe_plan(), {}}, evaluate);
  double least = 1e300, best = 1e300;
  for (const Plan& plan : sharding_plans(e, test::moe_plan())) {
    least = std::min(least, moved_size(e, plan).value());
    best = std::min(best, evaluate(plan).value());
  }
  CHECK(moved_size(e, choice.plan).value() == least);
  CHECK(choice.report.regret.value() == Approx(evaluate(choice.plan).value() / best - 1).margin(1e-12));
  CHECK(choice.report.evaluations == 4);
  CHECK_THAT(choice.report.reason, Catch::Contains("ep_mp 4") && Catch::Contains("MiB"));
}
