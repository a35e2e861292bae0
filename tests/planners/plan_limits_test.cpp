// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/plan_limits.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planners/layouts/layout_search.hpp"
#include "tests/planners/layout_questions.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// A framework without chunks, with communicators of its own, which gathers ahead beside early sums alone, and which has
// no pipeline.
std::optional<Plan> plain(const Experiment& e, Plan plan) {
  if (e.parallelism.pp > 1) return std::nullopt;
  plan.forward_degree = plan.backward_degree = 1;
  plan.backward_degrees.clear();
  plan.scope = Scope::Layer;
  plan.split = Split::Capacity;
  plan.order = Order::DispatchFirst;
  plan.comm_streams = CommStreams::ByGroup;
  if (plan.grad_sync == GradSync::After) plan.parameter_gather = ParameterGather::AfterUpdate;
  return plan;
}

Plan early_and_ahead() {
  Plan plan;
  plan.zero = 1;
  plan.grad_sync = GradSync::WithDense;
  plan.parameter_gather = ParameterGather::Ahead;
  plan.comm_streams = CommStreams::ByGroup;
  return plan;
}

System system_with(const Plan& plan) {
  System system;
  system.name = "early";
  system.plan = plan;
  return system;
}

}  // namespace

TEST_CASE("A plan holds that has what the user has fixed, and that the framework runs as it is") {
  const Experiment e = test::testbed_b();
  const PlanLimits limits([](Plan& plan) { plan.zero = 1; }, plain);
  Plan plan = early_and_ahead();
  CHECK(limits.holds(plan, e));
  plan.zero = 0;
  CHECK_FALSE(limits.holds(plan, e));
  plan.forward_degree = 4;
  CHECK_FALSE(limits.holds(plan, e));
  limits.hold(plan, e);
  CHECK(plan == early_and_ahead());
  CHECK(PlanLimits({}, {}).holds(plan, e));
  CHECK_FALSE(PlanLimits({}, {}).any());
}

TEST_CASE("What the user has fixed takes along what a system has for the framework to run it") {
  const Experiment e = test::testbed_b();
  const std::vector<ParallelLayout> all = layouts(e, {.global_batch = 32});
  const auto ahead = [](Plan& plan) { plan.parameter_gather = ParameterGather::Ahead; };
  const PlanLimits limits(ahead, plain);
  CHECK_FALSE(limits.first_plan(e, all, {}));  // gradients are summed after the step by default
  const std::optional<Plan> first = limits.first_plan(e, all, {system_with(early_and_ahead())});
  REQUIRE(first);
  CHECK(first->grad_sync == GradSync::WithDense);
  const PlanLimits never([](Plan& plan) { plan.forward_degree = 2; }, plain);
  CHECK_FALSE(never.first_plan(e, all, test::shipped_systems()));
  LayoutQuestion question{e, {.global_batch = 32}, e.cluster.device.memory, ahead};
  question.as_run = plain;
  CHECK(LayoutSearch(question).best({}, 1).empty());
}

TEST_CASE("Layouts are those that the framework has") {
  const Experiment e = test::testbed_b(4);
  const LayoutRequest request{.global_batch = 32};
  const std::vector<ParallelLayout> all = layouts(e, request), its = PlanLimits({}, plain).layouts(e, request);
  CHECK(its.size() < all.size());
  CHECK(static_cast<std::ptrdiff_t>(its.size()) ==
        std::ranges::count_if(all, [](const ParallelLayout& layout) { return layout.groups.pp == 1; }));
}

TEST_CASE("A search for a framework finds plans that it runs alone, none faster than those of a free search") {
  const std::vector<System> systems = test::shipped_systems();
  int found = 0;
  for (int seed = 1; seed <= test::cases(8); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const test::RandomQuestion question = test::random_question(random);
    const Experiment& e = question.experiment;
    const Bytes limit = e.cluster.device.memory;
    LayoutQuestion of_framework{e, question.request, limit};
    of_framework.as_run = plain;
    const std::vector<LaidOutPlan> its = LayoutSearch(of_framework).best({.systems = systems}, 10);
    if (its.empty()) continue;
    ++found;
    INFO("seed " << seed);
    for (const LaidOutPlan& plan : its) CHECK(plain(with_layout(e, plan.layout), plan.plan) == plan.plan);
    const std::vector<LaidOutPlan> any = LayoutSearch({e, question.request, limit}).best({.systems = systems}, 10);
    if (!any.empty()) CHECK(any.front().time <= its.front().time * 1.005);
  }
  CHECK(found > test::cases(8) / 3);
}
