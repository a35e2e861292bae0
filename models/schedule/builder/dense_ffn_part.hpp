// SPDX-License-Identifier: Apache-2.0
// The dense feed-forward part of a layer, shared by the model-parallel ranks as attention is: that of a dense layer, or
// all shared experts of an MoE layer side by side.
#pragma once
#include <functional>

#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Tensors that the forward pass leaves for the backward pass. With one model-parallel rank `input` is `own_input`.
struct SavedFfn {
  TensorId before_norm;  // of a dense layer
  TensorId own_input;    // (T, M)
  TensorId input, hidden;
  TensorId activated;  // -1: the backward pass computes it again
};

// From (T, M) to (T, M), of this rank's tokens.
TensorId dense_ffn_forward(StepContext& c, int layer, TensorId x, SavedFfn& saved);

// In the backward pass, after `begin` (plan.recompute): the whole forward pass again, if `whole`, or else the gather of
// an input that was made again or of which only the own tokens were kept.
void recompute_ffn(StepContext& c, int layer, bool whole, OpId begin, SavedFfn& saved);

// From the gradient (T, M) of the output to that of the input. `after_gather` adds what is enqueued beside the op.
TensorId dense_ffn_backward(StepContext& c, int layer, TensorId d_output, const SavedFfn& saved,
                            const std::function<void()>& after_gather);

// Writes the sum of tensors (T, M) to `sum`, which may be the first of them.
void add_up(StepContext& c, Phase phase, int layer, const TensorIds& parts, TensorId sum);

}  // namespace dovetail::builder
