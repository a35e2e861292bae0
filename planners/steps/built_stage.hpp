// SPDX-License-Identifier: Apache-2.0
// Schedules of a few layers of a pipeline stage, built once and timed with any costs. All plans that differ only in
// what is done once a step share the schedules of their passes.
#pragma once
#include <vector>

#include "models/price/build_schedule.hpp"
#include "planners/steps/one_stage.hpp"

namespace dovetail::planners {

// Such a schedule, timed. The host is ahead as the passes begin: launches before its first wait take no time.
struct StageTimes {
  // The ends of the forward pass, of the gradients of inputs, of those of weights too, of the reductions and of the
  // step.
  Seconds forward, inputs, both, reduced, step;
  Seconds pair;  // that a forward and a backward pass of two micro-batches take beside each other, where they do
  Seconds embedding_forward, embedding_backward;
  Seconds launches_forward, launches_backward, launches_weights;  // backward: with those of weights
  int waits_forward = 0, waits_backward = 0;
  Bytes persistent, held;
};

// The layers that tell the parts of a stage, in this order: one, two, one after a dense one if the model has dense ones
// first, and one with those of multi-token prediction if there are any.
std::vector<Layers> telling_layers(const Experiment& stage);

// The plan on one stage with gradients reduced and weights gathered after the passes, which then only compute and
// exchange rows.
Plan of_passes_alone(const Plan& plan);

class BuiltPasses {
 public:
  // `plan`: of_passes_alone(). Throws InputError where it is refused.
  BuiltPasses(const Experiment& stage, const Plan& plan, Backward backward);

  // By telling_layers(). `working`: what two layers need at the peak, beside what is persistent or held.
  struct Times {
    std::vector<StageTimes> of;
    Bytes working;
  };
  // Throws InputError where a cost is missing.
  Times timed(const Shared<Calibration>& costs) const;

 private:
  std::vector<BuiltPlan> layers_;
};

// Steps of two micro-batches, of which the forward pass of the second runs beside the backward pass of the first.
class BuiltPairs {
 public:
  // `plan`: with scope batch. Throws InputError where it is refused.
  BuiltPairs(const Experiment& stage, const Plan& plan);

  // Adds the times of pairs to these passes. Throws InputError where a cost is missing.
  void time_pairs(const Shared<Calibration>& costs, std::vector<StageTimes>& passes) const;

 private:
  std::vector<BuiltPlan> layers_;
};

// Whole steps, with gradients reduced and weights gathered as the plan says.
class BuiltSteps {
 public:
  // `plan`: of_one_stage(). Throws InputError where it is refused.
  BuiltSteps(const Experiment& stage, const Plan& plan, Backward backward);

  // Corrects when steps with these passes end. Throws InputError where a cost is missing.
  void time_ends(const Shared<Calibration>& costs, std::vector<StageTimes>& passes) const;

 private:
  std::vector<BuiltPlan> layers_;
};

}  // namespace dovetail::planners
