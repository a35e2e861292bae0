// The parts of a model before and after its layers. The words are shared out to the model-parallel ranks: each looks up
// those it has, and each has its own columns of the logits.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Tensors of one micro-batch that the forward pass leaves for the backward pass.
struct SavedEnds {
  TensorId tokens_first, tokens_last;  // of the first and the last stage, which may be the same
  TensorId output, own_head_input;     // the last layer's; the final norm (T, M) of it
  TensorId head_input, logits;         // of all model-parallel ranks; after the loss the logits' gradient
};

// Returns the first layer's input (T, M).
TensorId embedding_forward(StepContext& c, SavedEnds& saved);
// `d_input`: the gradient of the first layer's input.
void embedding_backward(StepContext& c, TensorId d_input, const SavedEnds& saved);

// The final norm, the output head, and the loss with its gradient by the logits.
void head_forward(StepContext& c, TensorId output, SavedEnds& saved);
// Returns the gradient of the last layer's output.
TensorId head_backward(StepContext& c, SavedEnds saved);

}  // namespace dovetail::builder
