// SPDX-License-Identifier: Apache-2.0
// The floor of a layout against what plans on it take.
#include "planners/layouts/layout_floor.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "planners/steps/step_prediction.hpp"
#include "planners/task/contest.hpp"
#include "tests/planners/layout_questions.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// Knobs that the search leaves as the user has them, and that change what is computed or sent.
void leave_question(Plan& plan) {
  copy_knobs(KnobClass::Numerics, Plan{}, plan);
  plan.row_tile = Plan{}.row_tile;
  plan.pad_messages = Plan{}.pad_messages;
  plan.shadowed_experts.clear();
}

std::optional<Plan> random_plan_on(test::Random& random, const ParallelLayout& layout, const Experiment& e) {
  for (int draw = 0; draw < 100; ++draw) {
    Plan plan = test::random_plan(random, e);
    leave_question(plan);
    plan.micro_batches = layout.micro_batches;
    if (!planners::refusal(plan, e)) return plan;
  }
  return std::nullopt;
}

// One with as little state as any.
std::optional<Plan> plan_of_least_state(const Plan& like, const Experiment& e) {
  Plan plan;
  plan.zero = 1;
  plan.micro_batches = like.micro_batches;
  if (!planners::refusal(plan, e)) return plan;
  plan = like;
  plan.zero = 1;
  if (!planners::refusal(plan, e)) return plan;
  return std::nullopt;
}

}  // namespace

TEST_CASE("No plan takes less than its layout's floor, whatever memory it needs") {
  const std::function<void(Plan&)> hold;
  Plan base;
  base.zero = 1;
  int tried = 0;
  double nearest = 0;
  for (int seed = 1; seed <= test::cases(60); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const test::RandomQuestion question = test::random_question(random);
    const Experiment& e = question.experiment;
    const std::vector<ParallelLayout> all = layouts(e, question.request);
    StageCostTable costs;
    for (int i = 0; i < 10 && !all.empty(); ++i) {
      const ParallelLayout& layout = all[random() % all.size()];
      const Experiment laid_out = with_layout(e, layout);
      const std::optional<Plan> plan = random_plan_on(random, layout, laid_out);
      if (!plan) continue;
      const std::optional<Plan> least = plan_of_least_state(*plan, laid_out);
      if (!least) continue;
      try {
        const StepPrediction step(laid_out, *plan);
        LayoutFloors floors(e, base, hold, step.peak() * (1 + 1e-9), costs);
        const LayoutFloor floor = floors.of(layout, *least);
        ++tried;
        nearest = std::max(nearest, floor.time / step.time());
        INFO("seed " << seed << ": floor " << floor.time.value() << " of " << step.time().value() << " s, again "
                     << floor.again.value() << ", peak " << step.peak().value() << ": "
                     << test::describe(laid_out, *plan));
        CHECK(floor.time <= step.time() * (1 + 1e-9));
      } catch (const InputError&) {  // a cost is missing
      }
    }
  }
  CHECK(tried > 4 * test::cases(60));
  if (test::cases(60) >= 60) CHECK(nearest > .99);  // few plans need not come near
}
