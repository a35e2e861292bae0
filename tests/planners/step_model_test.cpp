// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/step_model.hpp"

#include <catch2/catch.hpp>

#include "planners/task/contest.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

TEST_CASE("Predicted steps are those of predictions of their own, in whatever order they are asked for") {
  int tried = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    test::Random random(seed);
    const Experiment e = test::random_experiment(random), more = with_fewer(e, 1, 2);
    StepModel steps;
    for (int i = 0; i < 100; ++i) {
      const Plan plan = test::random_plan(random, e);
      if (refusal(plan, e) || refusal(plan, more)) continue;
      ++tried;
      INFO("seed " << seed << ": " << test::describe(e, plan));
      const StepPrediction alone(e, plan), of_more(more, plan);
      if (i % 2 == 0) CHECK(steps.peak(e, plan) == alone.peak());
      CHECK(steps.time(more, plan).value() == Approx(of_more.time().value()).epsilon(1e-12));
      CHECK(steps.time(e, plan).value() == Approx(alone.time().value()).epsilon(1e-12));
      CHECK(steps.built(e, plan) == alone.built());
      CHECK(steps.peak(more, plan) == of_more.peak());
      CHECK(steps.peak(e, plan) == alone.peak());
    }
  }
  CHECK(tried > 100);
}
