// SPDX-License-Identifier: Apache-2.0
// The costs that a plan needs of a calibration.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// Throws InputError where the calibration lacks what every plan of the experiment needs: GEMMs of the number format.
void require_costs(const Experiment& experiment);

// Throws InputError for a plan that could be built (plan/plan_rules.hpp) but needs costs that the experiment's
// calibration lacks: those of low_latency messages on the links that its all-to-all uses.
void require_costs(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
