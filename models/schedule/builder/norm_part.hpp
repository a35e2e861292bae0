// SPDX-License-Identifier: Apache-2.0
// The two norms of a layer and the final one, each over the rows of this rank's tokens.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// The norm of a layer's input or, with layer = layers, of the last layer's output. Returns normed_input (T, M).
TensorId norm_forward(StepContext& c, int layer, TensorId x);
// The norm before the feed-forward part. Returns normed_moe_input of the part's tokens.
TensorId norm_forward(StepContext& c, int layer, const TokenPart& part, TensorId moe_input);

// From the gradient of the norm's result to that of its input `x`. `past`: parts of the gradient that come past the
// norm, which the result includes.
TensorId norm_backward(StepContext& c, int layer, TensorId x, TensorId d_normed, const TensorIds& past);
TensorId norm_backward(StepContext& c, int layer, const TokenPart& part, TensorId moe_input, TensorId d_normed,
                       TensorId past);

// The norms of a layer of multi-token prediction beside those of any layer: of the next words' embeddings and of the
// output before, each of which is half of `result`, and of the layer's own output.
enum class MtpNorm { Embedding, Before, Own };
void mtp_norm_forward(StepContext& c, int layer, TensorId x, TensorId result);
// Returns the gradient of `x`.
TensorId mtp_norm_backward(StepContext& c, int layer, MtpNorm which, TensorId x, TensorId d_normed);

}  // namespace dovetail::builder
