// SPDX-License-Identifier: Apache-2.0
// How steps change with the costs of their operations, by estimate: a look at a layer instead of a whole step.
#pragma once
#include <utility>
#include <vector>

#include "planners/steps/step_estimate.hpp"

namespace dovetail::planners {

class EstimatedRatios {
 public:
  // The experiment is that of all the plan's micro-batches.
  struct Step {
    Experiment experiment;
    Plan plan;
  };

  // Throws InputError where a plan is refused or a cost is missing.
  explicit EstimatedRatios(const std::vector<Step>& steps);

  // Whether a step is one of alike layers, whose times the calibration's costs alone decide.
  static bool apply_to(const Experiment& experiment);

  // The time of each step with these costs over that with its experiment's own.
  std::vector<double> operator()(const Shared<Calibration>& costs);

 private:
  struct Built {
    Step step;
    BuiltStage stage;
    explicit Built(Step of) : step(std::move(of)), stage(step.experiment, step.plan) {}
  };
  Seconds time(const Built& built, const Shared<Calibration>& costs);

  std::vector<Built> steps_;
  PipelineOrders orders_;
  std::vector<Seconds> nominal_;
};

}  // namespace dovetail::planners
