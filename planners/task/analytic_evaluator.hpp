// SPDX-License-Identifier: Apache-2.0
// The planners' usual evaluator: build, price and predict. Time and memory of one step under a plan.
#pragma once
#include "planners/task/planner.hpp"

namespace dovetail::planners {

// `experiment` must outlive the evaluator. Not for several threads at once.
Evaluator analytic_evaluator(const Experiment& experiment);
Evaluator analytic_evaluator(const Experiment& experiment, std::shared_ptr<StepModel> steps);
// For a task's experiment, with its predictions.
Evaluator task_evaluator(const PlanningTask& task);

// Device memory that the fullest rank needs, over the analytic backend's timeline.
Bytes peak_memory(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail::planners
