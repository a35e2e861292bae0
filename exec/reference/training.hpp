// SPDX-License-Identifier: Apache-2.0
// The sequential training that every schedule's training must equal: the reference's step, and Adam on whole weights.
#pragma once
#include "exec/reference/reference.hpp"

namespace dovetail::exec {

class ReferenceTraining {
 public:
  // `start`: the model before the first step. The experiment must outlive this. If its step has no loss,
  // every step has the inputs and the output's gradient of `start`.
  ReferenceTraining(const Experiment& experiment, ModelData start, const ComputeRules& rules);
  ReferenceTraining(Experiment&& experiment, ModelData start, const ComputeRules& rules) = delete;

  // The rules of the steps from the next one on.
  void take_rules(const ComputeRules& rules) { rules_ = rules; }

  // One step on these words (as ModelData::words; none where the step has no embedding); returns its results, which are
  // those of the weights before it.
  Reference step(Values words);

  // With the weights after the last step.
  const ModelData& model() const { return model_; }

 private:
  const Experiment& e_;
  ComputeRules rules_;
  ModelData model_;
  int steps_ = 0;
  std::vector<Values> means_, variances_;  // of all weights, by matrix
};

// The mean of all words' losses; with multi-token prediction the sum of these means over all depths.
double mean_loss(const Reference& reference);

}  // namespace dovetail::exec
