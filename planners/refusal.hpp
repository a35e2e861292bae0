// SPDX-License-Identifier: Apache-2.0
// Whether a plan can be built for an experiment.
#pragma once
#include <optional>

#include "models/base/errors.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

// Why the plan cannot be built; none: it can.
std::optional<InputError> refusal(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail::planners
