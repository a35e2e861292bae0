// SPDX-License-Identifier: Apache-2.0
// The last part of a search whose budget is spent: plans near the best one.
#pragma once
#include <functional>

#include "planners/search/plan_space.hpp"

namespace dovetail::planners {

// Looks at the best plan with one knob changed and with neighbouring degrees, and again from what is better. If that
// finds nothing better, also with two knobs changed and its gradients reduced in each way: some help only together,
// such as order ready_first and 1f1b. Ends when `look_at` returns false. `best`: the fastest plan that fits so far;
// null: none.
void polish(const PlanningTask& task, const PlanSpace& space, const std::function<bool(Plan)>& look_at,
            const std::function<const Plan*()>& best);

}  // namespace dovetail::planners
