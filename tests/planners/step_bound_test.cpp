// SPDX-License-Identifier: Apache-2.0
// Lower bounds of a step's time against what the analytic model says of random plans.
#include "planners/search/step_bound.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/question/experiment_rules.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// An experiment of more layers than other tests have, since the first and the last may be reduced beside others.
std::optional<Experiment> deep_experiment(test::Random& random) {
  Experiment e = test::random_experiment(random);
  e.model.layers = e.workload.layers = test::integer(random, 3, 8);
  test::weigh_bytes(random, e);
  try {
    validate(e);
  } catch (const InputError&) {
    return std::nullopt;  // its routing or its stages are of another number
  }
  return e;
}

// The least time of a pass in chunks of that degree, or in chunks of any degree if it has others too.
Seconds least(const PassFloor& floor, const Plan& plan, int degree) {
  const bool alike = plan.split == Split::Capacity && plan.backward_degrees.empty();
  return floor.hidden(alike ? degree : 1);
}

}  // namespace

TEST_CASE("step bound: no plan is faster than what its passes and its streams have to do") {
  const bool interfering = GENERATE(false, true);
  CAPTURE(interfering);
  test::Random random(11), interference(12);
  int tried = 0, by_streams = 0, close = 0;
  while (tried < test::cases(1000)) {
    std::optional<Experiment> e = deep_experiment(random);
    if (!e) continue;
    if (interfering) test::slow_each_other(e->calibration.edit(), interference);
    const Plan plan = test::random_legal_plan(random, *e);
    if (plan.scope == Scope::Layer) continue;
    ++tried;
    const double time = analytic_evaluator(*e)(plan).value();
    const StepBound steps(*e, plan);
    const LayerFloor floor = steps.floor(plan);
    const Seconds forward = least(floor.forward, plan, plan.forward_degree);
    const Seconds backward = least(floor.backward, plan, plan.backward_degree);
    const double passes = steps.of(StreamFloor{}, forward, backward).value();
    const double streams = steps.of(steps.streams(plan), forward, backward).value();
    INFO("case " << tried << ": " << test::describe(*e, plan));
    CHECK(passes <= time * (1 + 1e-9));
    CHECK(streams <= time * (1 + 1e-9));
    CHECK(streams >= passes);
    by_streams += streams > passes;
    close += streams > .8 * time;
  }
  CHECK(by_streams > tried / 10);
  CHECK(close > tried / 10);
}
