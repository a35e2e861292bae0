// SPDX-License-Identifier: Apache-2.0
#include "planners/search/volume.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planners/task/analytic_evaluator.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

TEST_CASE("volume: no plan is faster than the floors of its volume") {
  const bool interfering = GENERATE(false, true);
  CAPTURE(interfering);
  test::Random random(5), interference(6);
  const int wanted = test::cases(800);
  int tried = 0, halves = 0, beside = 0;
  while (tried < wanted) {
    Experiment e = test::random_experiment(random);
    if (interfering) test::slow_each_other(e.calibration.edit(), interference);
    const Plan plan = test::random_legal_plan(random, e);
    if (plan.scope == Scope::Layer || plan.scope == Scope::Batch || !plan.shadowed_experts.empty() ||
        plan.delay_weight_gradient != DelayedWeights::None)
      continue;  // outside of every space
    VolumeBounds bounds(e);
    const std::optional<Volume> volume = bounds.volume_of(plan);
    if (!volume) continue;
    ++tried;
    halves += plan.pipeline().halves ? 1 : 0;
    beside += plan.shared_experts == SharedExperts::Overlapped ? 1 : 0;
    const bool alike = plan.split == Split::Capacity && plan.backward_degrees.empty();
    const Seconds any = volume->floor();
    const Seconds arranged = volume->floor(plan, 0, 0);
    const Seconds cut = volume->floor(plan, alike ? plan.forward_degree : 1, alike ? plan.backward_degree : 1);
    INFO("case " << tried << ": " << test::describe(e, plan));
    CHECK(any <= arranged * (1 + 1e-9));
    CHECK(arranged <= cut * (1 + 1e-9));
    CHECK((alike ? cut : arranged) <= analytic_evaluator(e)(plan) * (1 + 1e-9));
  }
  CHECK(std::min(halves, beside) >= wanted / 50);
}

TEST_CASE("volume: a plan that cannot be built has none, and volumes alike share their bounds") {
  const Experiment e = test::testbed_b(2);
  VolumeBounds bounds(e);
  Plan impossible = test::moe_plan();
  impossible.micro_batches = e.workload.batch + 1;
  CHECK_FALSE(bounds.volume_of(impossible));
  Plan plan = test::moe_plan();
  plan.forward_degree = 4;
  const std::optional<Volume> one = bounds.volume_of(plan), other = bounds.volume_of(test::moe_plan());
  REQUIRE(one);
  REQUIRE(other);
  CHECK(one->plan().forward_degree == 1);
  CHECK(&one->steps() == &other->steps());
}
