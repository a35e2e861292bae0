// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/knob_climb.hpp"

#include <algorithm>
#include <utility>

#include "planners/layouts/arrangements.hpp"
#include "planners/layouts/open_axes.hpp"
#include "planners/limits.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {

// The space of plans with all knobs that the user leaves open, the pipeline apart. It is empty where a knob of the user
// leaves nothing open.
PlanSpace KnobClimb::open_space(const Experiment& e, const LaidOutPlan& plan) const {
  const auto fixed = [this, pipeline = plan.plan](Plan& changed) {
    copy_knobs(KnobClass::Pipeline, pipeline, changed);
    changed = plans_.held(std::move(changed));
  };
  const PlannerChoice all_knobs{"dovetail", limits::degrees(), false, SearchSpace::Plans};
  return if_answered([&] { return plan_space({e, plan.plan, all_knobs, {}, fixed, {}}); }).value_or(PlanSpace{});
}

// A plan with a change, and with what makes it legal, if that is faster. An order by costs is left out where it
// would take the whole step to predict.
bool KnobClimb::improve_by(const std::vector<const Setting*>& change, const Experiment& e, LaidOutPlan& best) {
  Plan plan = best.plan;
  for (const Setting* set : change) (*set)(plan);
  plan = plans_.as_run(plan, e);
  if (plan == best.plan || (plan.is_ordered_by_costs() && plan.micro_batches > 1)) return false;
  const std::optional<Plan> legal = plans_.nearest(best.plan, plan, e);
  if (!legal) return false;
  std::optional<LaidOutPlan> other = plans_.estimated(e, best.layout, *legal);
  if (!other || !plans_.fits(*other) || other->estimate.time >= best.estimate.time * (1 - limits::least_gain))
    return false;
  best = *std::move(other);
  return true;
}

bool KnobClimb::improve_by_one(const std::vector<Axis>& axes, const Experiment& e, LaidOutPlan& best) {
  bool better = false;
  for (const Axis& axis : axes)
    for (const Setting& set : axis) better |= improve_by({&set}, e, best);
  return better;
}

// Two of those that say what is sent when, on which stream and in how many chunks; they often help only together.
bool KnobClimb::improve_by_two(const std::vector<Axis>& axes, const Experiment& e, LaidOutPlan& best) {
  bool better = false;
  for (std::size_t second = 1; second < axes.size(); ++second)
    for (std::size_t first = 0; first < second; ++first)
      for (const Setting& set_second : axes[second])
        for (const Setting& set_first : axes[first]) better |= improve_by({&set_first, &set_second}, e, best);
  return better;
}

LaidOutPlan KnobClimb::improved(LaidOutPlan best, bool pairs) {
  const Experiment e = plans_.laid_out(best.layout);
  std::vector<Axis> axes = axes_of(open_space(e, best));
  axes.push_back(pipeline_axis(piped(best.plan, best.layout, e, every_schedule())));
  do {
    while (improve_by_one(axes, e, best)) {
    }
  } while (pairs && improve_by_two(chunk_axes_of(open_space(e, best)), e, best));
  return best;
}

// Returns the layers that were built to find out whether the change makes the step faster.
long KnobClimb::polish_by(const Setting& set, const Experiment& e, LaidOutPlan& best) {
  Plan plan = best.plan;
  set(plan);
  plan = plans_.as_run(plan, e);
  const bool few = plans_.question().experiment.workload.layers * plan.micro_batches <= limits::ready_step;
  if (plan == best.plan || (plan.is_ordered_by_costs() && !few)) return 0;
  const std::optional<Plan> legal = plans_.nearest(best.plan, plan, e);
  std::optional<LaidOutPlan> other = legal ? plans_.estimated(e, best.layout, *legal) : std::nullopt;
  if (!other) return 0;
  if (!plans_.small() && other->estimate.time > best.estimate.time * limits::promising) return 0;
  const long layers = plans_.predict(*other);
  plans_.take_if_faster(*std::move(other), best);
  return layers;
}

void KnobClimb::polish(LaidOutPlan& best) {
  const Experiment e = plans_.laid_out(best.layout);
  std::vector<Axis> axes = axes_of(open_space(e, best));
  std::ranges::rotate(axes, axes.end() - static_cast<std::ptrdiff_t>(axes_in_steps));
  long layers = 0;
  for (Seconds before = best.time;; before = best.time) {
    for (std::size_t i = 0; i < axes.size(); ++i)
      for (const Setting& set : axes[i])
        if (i < axes_in_steps || plans_.small() || layers < limits::polish_layers) layers += polish_by(set, e, best);
    if (best.time >= before || (!plans_.small() && layers >= limits::polish_layers)) break;
  }
  slice_gradients(e, best);
}

void KnobClimb::slice_gradients(const Experiment& e, LaidOutPlan& best) {
  if (best.plan.grad_sync == GradSync::Partitioned) return;
  for (const Plan& sliced : sliced_plans(best.plan, e))
    if (std::optional<LaidOutPlan> other = plans_.estimated(e, best.layout, sliced))
      plans_.take_if_faster(*std::move(other), best);
}

}  // namespace dovetail::planners
