// SPDX-License-Identifier: Apache-2.0
#include "planners/task/analytic_evaluator.hpp"

#include <utility>

#include "planners/steps/step_prediction.hpp"

namespace dovetail::planners {

Evaluator analytic_evaluator(const Experiment& experiment) {
  return analytic_evaluator(experiment, std::make_shared<StepModel>());
}

Evaluator analytic_evaluator(const Experiment& experiment, std::shared_ptr<StepModel> steps) {
  return [&experiment, steps = std::move(steps)](const Plan& plan) { return steps->time(experiment, plan); };
}

Evaluator task_evaluator(const PlanningTask& task) {
  return analytic_evaluator(task.experiment, task.steps);
}

Bytes peak_memory(const Experiment& experiment, const Plan& plan) {
  return StepPrediction(experiment, plan).peak();
}

}  // namespace dovetail::planners
