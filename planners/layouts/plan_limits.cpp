// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/plan_limits.hpp"

#include "planners/layouts/arrangements.hpp"

namespace dovetail::planners {

bool PlanLimits::holds(const Plan& plan, const Experiment& e) const {
  if (fixed_) {
    Plan held = plan;
    fixed_(held);
    if (held != plan) return false;
  }
  return !as_run_ || as_run_(e, plan) == plan;
}

void PlanLimits::hold(Plan& plan, const Experiment& e) const {
  if (fixed_) fixed_(plan);
  plan = as_run(plan, e);
}

std::vector<ParallelLayout> PlanLimits::layouts(const Experiment& e, const LayoutRequest& request) const {
  std::vector<ParallelLayout> all = planners::layouts(e, request);
  if (as_run_)
    std::erase_if(all, [&](const ParallelLayout& layout) { return !as_run_(with_layout(e, layout), Plan()); });
  return all;
}

std::optional<Plan> PlanLimits::first_plan(const Experiment& e, const std::vector<ParallelLayout>& layouts,
                                           const std::vector<System>& systems) const {
  Plan base;
  base.zero = 1;
  if (fixed_) fixed_(base);
  if (!as_run_) return base;
  for (const ParallelLayout& layout : layouts) {
    const Experiment laid_out = with_layout(e, layout);
    Plan plan = base;
    hold(plan, laid_out);
    if (holds(plan, laid_out)) return plan;
    for (const System& system : systems)
      for (const Plan& arrangement : arrangements_of(system, laid_out)) {
        Plan other = arranged_as(arrangement, base);
        other.pad_messages = plan.pad_messages;
        hold(other, laid_out);
        if (holds(other, laid_out)) return other;
      }
  }
  return std::nullopt;
}

}  // namespace dovetail::planners
