// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/question/volumes.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/closed_form/gradient_partition.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

Plan moe_plan(CommStreams streams, GradSync sync) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.comm_streams = streams;
  plan.grad_sync = sync;
  return plan;
}

std::vector<int> up_to(int last) {
  std::vector<int> all;
  for (int degree = 1; degree <= last; ++degree) all.push_back(degree);
  return all;
}

PlanChoice choose(const Experiment& e, const Plan& base, const PlannerChoice& choices) {
  return find_planner(choices.name).choose({e, base, choices}, analytic_evaluator(e));
}

double makespan(const Experiment& e, const Plan& plan) {
  return analytic_evaluator(e)(plan).value();
}

// Testbed B with each cost 1/5 to 5 times its own, and capacities that degrees up to 4 divide.
Experiment random_experiment(std::mt19937& engine) {
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution(low, high)(engine); };
  const auto factor = [&] { return std::pow(5.0, std::uniform_real_distribution(-1.0, 1.0)(engine)); };
  Experiment e = test::testbed_b(integer(1, 6));
  for (CollectiveCost& c : e.calibration.edit().collectives) {
    c.alpha = c.alpha * factor();
    c.beta = c.beta * factor();
  }
  e.calibration.edit().gemms.front().beta = e.calibration->gemms.front().beta * factor();
  e.calibration.edit().memory = {Seconds(1e-6), SecondsPerByte(2e-12 * factor()), {}};
  e.workload.sequence = 256 * integer(1, 2);
  e.workload.capacity_factor = 1.5;  // C = 2 * 1.5 * 64 / 8 = 24, or 48
  if (integer(0, 3) == 0) {          // 4 experts on 8 nodes: two replicas of each
    e.model.experts = 4;
    e.parallelism = default_parallelism(e.cluster, e.model);
  }
  return e;
}

}  // namespace

TEST_CASE("planners are found by name") {
  for (const std::string& name : planner_names()) CHECK(find_planner(name).name() == name);
  CHECK_THROWS_AS(find_planner("exhaustiv"), InputError);
  try {
    find_planner("exhaustiv");
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), Catch::Contains("did you mean \"exhaustive\"") && Catch::Contains("fixed"));
  }
}

TEST_CASE("fixed takes the plan as it is and fills in open slices") {
  const Experiment e = test::testbed_b(3);
  Plan base = moe_plan(CommStreams::InterIntra, GradSync::WithDense);
  base.forward_degree = 2;
  base.backward_degree = 4;
  PlanChoice choice = choose(e, base, {"fixed", {1}, true});
  CHECK(choice.plan == base);
  CHECK(choice.report.evaluations == 1);
  CHECK_FALSE(choice.report.runner_up);
  base.grad_sync = GradSync::Partitioned;
  choice = choose(e, base, {"fixed", {1}, true});
  CHECK(choice.plan.forward_degree == 2);
  CHECK(choice.plan.backward_degree == 4);
  CHECK_FALSE(choice.plan.gradient_slices.empty());
}

TEST_CASE("exhaustive evaluates every pair, skips what cannot be built and prefers small degrees") {
  const Experiment e = test::testbed_b(2);
  const Plan base = moe_plan(CommStreams::One, GradSync::After);
  const PlanChoice tied = choose(e, base, {"exhaustive", {4, 2, 1, 8, 2}, true});
  CHECK(tied.report.evaluations == 4);
  const PlanChoice apart = choose(e, base, {"exhaustive", {1, 2, 4, 8}, false});
  CHECK(apart.report.evaluations == 16);
  CHECK(makespan(e, apart.plan) <= makespan(e, tied.plan));
  CHECK(apart.report.regret == 0.0);
  CHECK(apart.report.runner_up);
  const PlanChoice capped = choose(e, base, {"exhaustive", {1, 2, 21}, true});  // an expert takes 20 rows
  CHECK(capped.report.evaluations == 2);
  CHECK_THROWS_AS(choose(e, base, {"exhaustive", {21, 22}, true}), InputError);
  CHECK_THROWS_AS(choose(e, base, {"exhaustive", {}, true}), InputError);

  Plan sequential;  // scope layer: degree 1 only
  CHECK(choose(e, sequential, {"exhaustive", {1, 2}, true}).report.evaluations == 1);
  const Evaluator equal = [](const Plan&) { return Seconds(1); };
  const PlannerChoice choices{"exhaustive", {4, 2, 3}, false};
  const PlanChoice small = find_planner("exhaustive").choose({e, base, choices}, equal);
  CHECK(small.plan.forward_degree == 2);
  CHECK(small.plan.backward_degree == 2);
}

TEST_CASE("four_case: no regret against exhaustive, and its closed forms foretell the makespan") {
  std::mt19937 engine(3);
  for (int i = 0; i < 120; ++i) {
    const Experiment e = random_experiment(engine);
    const CommStreams streams = i % 2 == 0 ? CommStreams::InterIntra : CommStreams::One;
    const GradSync sync = i % 3 == 0 ? GradSync::After : i % 3 == 1 ? GradSync::WithDense : GradSync::Partitioned;
    const Plan base = moe_plan(streams, sync);
    for (bool tied : {false, true}) {
      const std::vector<int> degrees = up_to(4);
      const PlanChoice ours = choose(e, base, {"four_case", degrees, tied});
      const PlanChoice oracle = choose(e, base, {"exhaustive", degrees, tied});
      const double regret = makespan(e, ours.plan) / makespan(e, oracle.plan) - 1;
      if (regret > 1e-12) FAIL("case " << i << (tied ? " tied" : "") << ": regret " << regret);
      if (sync != GradSync::Partitioned || tied) {
        if (regret < -1e-12) FAIL("case " << i << ": exhaustive misses a plan");
        continue;
      }
      const LayerTimes t = layer_times(e);
      const GradientPartition partition = partition_gradients(gradient_problem(t, streams, degrees));
      double forward = 1e300;
      for (int r : degrees)
        forward = std::min(
            forward,
            (t.layers() * (t.forward.dense() + exact_makespan(t.forward.moe, streams, r, Seconds(0)))).value());
      const double foretold = forward + partition.time.value();
      if (std::abs(makespan(e, ours.plan) / foretold - 1) > 1e-9)
        FAIL("case " << i << ": " << makespan(e, ours.plan) << ", foretold " << foretold);
    }
  }
}

TEST_CASE("four_case explains itself") {
  const Experiment e = test::testbed_b(7);
  const PlanChoice choice =
      choose(e, moe_plan(CommStreams::InterIntra, GradSync::Partitioned), {"four_case", up_to(16), false});
  INFO(choice.report.reason << "; runner-up " << choice.report.runner_up.value_or("none"));
  CHECK_THAT(choice.report.reason, Catch::Contains("case") && Catch::Contains("backward degree") &&
                                       Catch::Contains("beside attention") && Catch::Contains("paper"));
  const PlanChoice one = choose(e, moe_plan(CommStreams::One, GradSync::WithDense), {"four_case", up_to(16), false});
  CHECK_THAT(one.report.reason, Catch::Contains("bottleneck") || Catch::Contains("fills its stream"));
  CHECK_THAT(one.report.reason, !Catch::Contains("paper"));
  CHECK(choice.report.evaluations > 10);
  CHECK(choice.report.time > Seconds(0));
}

TEST_CASE("four_case plans a forward-only workload") {
  Experiment e = test::testbed_b(2);
  e.workload.phases = Phases::ForwardOnly;
  const Plan base = moe_plan(CommStreams::InterIntra, GradSync::Partitioned);
  const PlanChoice ours = choose(e, base, {"four_case", up_to(8), false});
  const PlanChoice oracle = choose(e, base, {"exhaustive", up_to(8), false});
  CHECK(makespan(e, ours.plan) <= makespan(e, oracle.plan) * (1 + 1e-12));
}

TEST_CASE("the published systems' order on testbed B with seven layers of Mixtral") {
  const Experiment e = test::testbed_b(7);
  const PlannerChoice search{"exhaustive", {1, 2, 4, 8}, true}, cases{"four_case", up_to(16), false};
  const auto time = [&](CommStreams streams, GradSync sync, const PlannerChoice& choices) {
    return makespan(e, choose(e, moe_plan(streams, sync), choices).plan);
  };
  const double deepspeed_moe = makespan(e, Plan{});
  const double tutel = time(CommStreams::One, GradSync::After, search);
  const double tutel_improved = time(CommStreams::One, GradSync::WithDense, search);
  const double fsmoe_no_iio = time(CommStreams::One, GradSync::Partitioned, cases);
  const double fsmoe = time(CommStreams::InterIntra, GradSync::Partitioned, cases);
  CHECK(tutel <= deepspeed_moe);
  CHECK(tutel_improved <= tutel);
  CHECK(fsmoe_no_iio <= tutel_improved);
  CHECK(fsmoe < tutel);
}

// D M D M with shared experts: layers differ in their gradients, and dense ones have no all-to-all.
TEST_CASE("Planners slice the gradients of mixed layers, and are not beaten by what they try") {
  for (CommStreams streams : {CommStreams::One, CommStreams::InterIntra})
    for (bool shares : {false, true}) {
      CAPTURE(streams == CommStreams::One, shares);
      Experiment e = test::round_numbers(4);
      e.workload.sequence = 64;
      e.model.first_dense = 1;
      e.model.moe_every = 2;
      e.model.dense_hidden = 400;
      if (shares) e.model.shared_experts = {1, 64, false};
      const Plan base = moe_plan(streams, GradSync::Partitioned);
      const std::vector<int> degrees = up_to(4);
      const PlanChoice ours = choose(e, base, {"four_case", degrees, false});
      const PlanChoice oracle = choose(e, base, {"exhaustive", degrees, false});
      CHECK_NOTHROW(validate(ours.plan, e));
      CHECK_NOTHROW(validate(build_schedule(e, ours.plan)));
      CHECK(makespan(e, ours.plan) <= makespan(e, oracle.plan) * (1 + 1e-12));
      std::int64_t sum = 0;
      for (const GradientSlice& slice : ours.plan.gradient_slices) sum += slice.elements;
      const std::vector<std::int64_t> elements = dense_elements(e, StageLayout(e.workload.layers));
      CHECK(sum == elements[0] + elements[1] + elements[2] + elements[3]);
      CHECK(elements[0] > elements[1]);
    }
}

TEST_CASE("block: degrees of both passes are the same, and closed forms of unchunked attention do not choose them") {
  const Experiment e = test::testbed_b(2);
  Plan base = moe_plan(CommStreams::One, GradSync::After);
  base.scope = Scope::Block;
  const PlanChoice choice = choose(e, base, {"exhaustive", {1, 2, 4}, /*tie_degrees=*/false});
  CHECK(choice.report.evaluations == 3);
  CHECK(choice.plan.forward_degree == choice.plan.backward_degree);
  for (int degree : {1, 2, 4}) {
    base.forward_degree = base.backward_degree = degree;
    CHECK(makespan(e, choice.plan) <= makespan(e, base));
  }
  CHECK_THROWS_WITH(choose(e, base, {"four_case", {1, 2}, true}), Catch::Contains("block contradicts"));
}
