// SPDX-License-Identifier: Apache-2.0
// Multi-token prediction (DeepSeek-V3, section 2.2): a layer after the last one, whose input is a projection of two
// norms side by side, that of the output before it and that of the next words' embeddings. Its output goes through a
// norm of its own and the model's output head. exec/step/word_rule.hpp says which words it sees and predicts.
#pragma once
#include "models/schedule/builder/ends_part.hpp"

namespace dovetail::builder {

// Tensors that a layer of multi-token prediction leaves for the backward pass, beside those of any layer.
struct SavedPrediction {
  TensorId before;            // (T, M) normed output of the model, or of the layer of multi-token prediction before
  TensorId embedded;          // (T, M) rows of the next words
  TensorId own_input, input;  // (T, 2M) both norms; of all model-parallel ranks
  SavedHead head;
};

// Returns the layer's input (T, M).
TensorId mtp_input_forward(StepContext& c, int layer, TensorId before, TensorId tokens, SavedPrediction& saved);
// From the gradient of the layer's input to that of `before`.
TensorId mtp_input_backward(StepContext& c, int layer, TensorId d_input, TensorId tokens, SavedPrediction saved);

}  // namespace dovetail::builder
