// SPDX-License-Identifier: Apache-2.0
// Steps of one question by estimate, where a prediction takes long: many micro-batches of many layers.
//
// An estimate puts a step together from a layer's times (layouts/step_estimate.hpp), in microseconds once the kind of
// stage is known. A prediction builds every layer of some micro-batches.
#pragma once
#include <optional>

#include "planners/layouts/step_estimate.hpp"

namespace dovetail::planners {

// A plan whose estimate is slower than another's by more than this factor is taken as slower: 25 random layouts each of
// two models were estimated within 6 % of the whole step, and most within 2 %.
inline constexpr double clearly_slower = 1.05;

// Not for several threads at once.
class EstimatedSteps {
 public:
  // Whether steps of this experiment are estimated. They are not where a prediction is quick, with few layers x
  // samples, nor in inference and on a described network.
  static bool applies_to(const Experiment& experiment);

  // None where they are not, where the plan is refused and where a cost is missing. None too for a single micro-batch
  // without pipeline stages, whose step depends on how its gradients are sliced.
  std::optional<StepEstimate> of(const Experiment& experiment, const Plan& plan);

 private:
  StageCostTable costs_;
  PipelineOrders orders_;
};

}  // namespace dovetail::planners
