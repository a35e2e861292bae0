// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/repeating_steps.hpp"

#include "models/time/analytic_backend.hpp"

namespace dovetail::bench {

using planners::StepPrediction;

std::optional<StepPrediction> repeating_step(const Experiment& experiment, const Plan& plan) {
  const bool classes = experiment.cluster.network && experiment.parallelism.pp == 1;
  if (classes || !experiment.events.empty()) return std::nullopt;
  return StepPrediction::of_repeating(experiment, plan);
}

std::optional<SystemResult> result_of_step(const Experiment& experiment, const std::string& name,
                                           const planners::PlanChoice& choice, planners::StepModel& steps) {
  // Flows of a network are activities that ops share.
  if (experiment.cluster.network || !experiment.events.empty()) return std::nullopt;
  const planners::PredictedStep step = steps.exact(experiment, choice.plan);
  SystemResult result;
  result.system = name;
  result.plan = choice.plan;
  result.planner = choice.report;
  result.backend = AnalyticBackend().name();
  result.metrics = step.metrics;
  result.lower_bound = *step.lower_bound;
  result.memory.peak = step.peak();
  const Bytes available = experiment.cluster.device.memory;
  result.feasible = result.memory.peak <= available;
  if (!result.feasible) result.missing = result.memory.peak - available;
  return result;
}

}  // namespace dovetail::bench
