// SPDX-License-Identifier: Apache-2.0
// The parts of a model before and after its layers. The words are shared out to the model-parallel ranks: each looks up
// those it has, and each has its own columns of the logits.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Tensors that a prediction leaves for the backward pass.
struct SavedHead {
  TensorId output, own_input;  // a layer's; the norm (T, M) of it
  TensorId input, logits;      // of all model-parallel ranks; after the loss the logits' gradient
};

// Tensors of one micro-batch that the forward pass leaves for the backward pass.
struct SavedEnds {
  TensorId tokens_first, tokens_last;  // of the first and the last stage, which may be the same
  SavedHead head;
};

// Returns the first layer's input (T, M).
TensorId embedding_forward(StepContext& c, SavedEnds& saved);
// `d_input`: the gradient of the first layer's input.
void embedding_backward(StepContext& c, TensorId d_input, const SavedEnds& saved);

// Looks up words for a layer (T, M); and adds to their gradients.
TensorId look_up(StepContext& c, int layer, TensorId tokens);
void look_up_backward(StepContext& c, int layer, TensorId d_rows, TensorId tokens);

// The final norm, the output head, and the loss with its gradient by the logits.
void head_forward(StepContext& c, TensorId output, SavedEnds& saved);
// The same for the output of a layer of multi-token prediction, from tokens further on; layer `layers` stands for the
// model's own.
void predict_forward(StepContext& c, int layer, TensorId output, TensorId tokens, SavedHead& saved);

// From the gradient of the logits to that of the norm's result, which it returns.
TensorId logits_backward(StepContext& c, int layer, SavedHead saved);
// From there to the gradient of the layer's output. `past`: what comes to the norm's result on another way, or -1.
TensorId output_backward(StepContext& c, int layer, const SavedHead& saved, TensorId d_normed, TensorId past);

}  // namespace dovetail::builder
