// The attention of one layer, with its collectives over the model-parallel group.
#pragma once
#include "models/builder/step_context.hpp"

namespace dovetail::builder {

// What the forward pass leaves for the backward pass. With one model-parallel rank `input` is the layer's input.
struct SavedAttention {
  TensorId input = -1, query_key_value = -1, context = -1, log_sum_exp = -1;
};

// Returns attention_output (T, M), of this rank's tokens.
TensorId attention_forward(StepContext& c, int layer, TensorId x, SavedAttention& saved);

// In two halves, since dense gradients may be reduced between them. From the gradient (T, M) of the output to that of
// the gathered one (L, M); then to attention_sum_gradient (T, M) or, with one rank, d_attention_input.
TensorId attention_backward_gather(StepContext& c, int layer, TensorId d_output);
TensorId attention_backward(StepContext& c, int layer, TensorId d_gathered, const SavedAttention& saved);

}  // namespace dovetail::builder
