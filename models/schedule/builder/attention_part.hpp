// SPDX-License-Identifier: Apache-2.0
// The attention of one layer, with its collectives over the model-parallel group. Chunked, the first projections are
// one op for all tokens and the rest is one op for each part. They are an op of their own too where queries and keys
// have norms, which come after them, and in latent attention, which makes low ranks before them.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Tensors that the forward pass leaves for the backward pass. With one model-parallel rank `input` is the layer's
// input. `softmax`: its logarithm of the sum or, with eager attention, its probabilities.
struct SavedAttention {
  TensorId before_norm;  // the layer's input
  TensorId own_input;    // (T, M): the norm of it, or itself
  TensorId input, query_key_value, context, softmax;
  TensorId own_low_ranks, low_ranks;  // (T, R), and of all model-parallel ranks; -1: other attention
  TensorId query_key_input;           // -1: queries and keys, or low ranks, have no norms
  TensorId query_key_sums;            // -1: no norm goes over several ranks
};

// Adds the ops before the first part: the gather and, where they are ops of their own, projections and norms.
void attention_start(StepContext& c, int layer, TensorId x, SavedAttention& saved);
// Returns attention_output (T, M) of the part's tokens of this rank.
TensorId attention_forward(StepContext& c, int layer, const TokenPart& part, const SavedAttention& saved);

// In the backward pass, after `begin` (plan.recompute): what the projections read; what latent attention makes of its
// low ranks; and what the heads leave of a part. If the plan keeps it, nothing is done.
void recompute_attention_input(StepContext& c, int layer, OpId begin, SavedAttention& saved);
void recompute_up_projections(StepContext& c, int layer, OpId begin, SavedAttention& saved);
void recompute_core_attention(StepContext& c, int layer, const TokenPart& part, OpId begin, SavedAttention& saved);

// From the gradient (T, M) of the part's output to that of the gathered one (L, M).
TensorId attention_backward_gather(StepContext& c, int layer, const TokenPart& part, TensorId d_output);
// Backward of one part. `d_input` is what attention_backward_finish returns its own or the gathered sum of.
struct AttentionGradients {
  TensorId input, query_key_value;  // the second where projections are apart
};
void attention_backward(StepContext& c, int layer, const TokenPart& part, TensorId d_gathered,
                        const SavedAttention& saved, AttentionGradients& d);
// After the last part: returns attention_sum_gradient (T, M) or, with one rank, d_attention_input.
TensorId attention_backward_finish(StepContext& c, int layer, const SavedAttention& saved, AttentionGradients& d);

}  // namespace dovetail::builder
