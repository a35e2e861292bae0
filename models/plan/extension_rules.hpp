// SPDX-License-Identifier: Apache-2.0
// A rule of plan_rules.hpp, for experiments with sub-modules of the user's own.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// Throws InputError for a knob that contradicts one of them, or is not built together with it.
void require_extensions(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
