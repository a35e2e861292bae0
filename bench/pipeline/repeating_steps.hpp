// SPDX-License-Identifier: Apache-2.0
// Steps that are told by few of their micro-batches, to rounding, so that they need not be built whole.
#pragma once
#include <optional>
#include <string>

#include "models/results/result.hpp"
#include "planners/steps/step_prediction.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::bench {

// None where a step does not repeat itself, or where the whole one has what few micro-batches lack: events at times of
// the step, or ranks that a described network tells apart.
std::optional<planners::StepPrediction> repeating_step(const Experiment& experiment, const Plan& plan);

// The result that `evaluate` gives by the analytic backend, without schedule, timeline, bound of the plan and arenas.
// None: see above.
std::optional<SystemResult> result_of_repeating(const Experiment& experiment, const std::string& name,
                                                const planners::PlanChoice& choice);

}  // namespace dovetail::bench
