// SPDX-License-Identifier: Apache-2.0
// Steps that are told by few of their micro-batches, to rounding, so that they need not be built whole, and results of
// which nothing is asked that only a whole step has.
#pragma once
#include <optional>
#include <string>

#include "models/results/result.hpp"
#include "planners/steps/step_model.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::bench {

// None where a step does not repeat itself, or where the whole one has what few micro-batches lack: events at times of
// the step, or ranks that a described network tells apart.
std::optional<planners::StepPrediction> repeating_step(const Experiment& experiment, const Plan& plan);

// The result that `evaluate` gives by the analytic backend, without schedule, timeline, bound of the plan and arenas;
// of few micro-batches where these tell it. `steps` may know it already. None: there are events or a described network.
std::optional<SystemResult> result_of_step(const Experiment& experiment, const std::string& name,
                                           const planners::PlanChoice& choice, planners::StepModel& steps);

}  // namespace dovetail::bench
