// SPDX-License-Identifier: Apache-2.0
// Climbs through a space by estimates, for steps that take long to predict.
#pragma once
#include <vector>

#include "planners/search/plan_space.hpp"

namespace dovetail::planners {

// Starts from the best of the known plans, and changes one knob after another as long as the estimate then fits the
// memory better or is faster. An order by readiness is left out, because it is known only of the whole step. Returns
// the known plans and those found that are not clearly slower than the best, the best first; none where none of the
// known plans is estimated.
std::vector<Plan> climbed(const PlanningTask& task, const PlanSpace& space, const std::vector<Plan>& known,
                          Bytes limit);

}  // namespace dovetail::planners
