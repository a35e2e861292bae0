// SPDX-License-Identifier: Apache-2.0
// Improves a plan on its layout knob by knob, each together with what makes it legal.
#pragma once
#include <vector>

#include "planners/layouts/layout_plans.hpp"
#include "planners/search/plan_space.hpp"

namespace dovetail::planners {

class KnobClimb {
 public:
  explicit KnobClimb(LayoutPlans& plans) : plans_(plans) {}

  // Changes knobs as long as that makes the step faster by estimate, one after the other, and with `pairs` two together
  // at the end.
  LaidOutPlan improved(LaidOutPlan best, bool pairs);

  // Changes knobs of a predicted plan as long as that makes the whole step faster, to values whose estimate is about as
  // good. The estimate does not know when exactly gradients and weights meet other traffic, nor an order by readiness,
  // so these are tried first. The others follow while few enough layers are built for it, and in small questions all.
  void polish(LaidOutPlan& best);

 private:
  PlanSpace open_space(const Experiment& laid_out, const LaidOutPlan& plan) const;
  bool improve_by(const std::vector<const Setting*>& change, const Experiment& laid_out, LaidOutPlan& best);
  bool improve_by_one(const std::vector<Axis>& axes, const Experiment& laid_out, LaidOutPlan& best);
  bool improve_by_two(const std::vector<Axis>& axes, const Experiment& laid_out, LaidOutPlan& best);
  long polish_by(const Setting& set, const Experiment& laid_out, LaidOutPlan& best);
  void slice_gradients(const Experiment& laid_out, LaidOutPlan& best);

  LayoutPlans& plans_;
};

}  // namespace dovetail::planners
