// SPDX-License-Identifier: Apache-2.0
// One layer forward: attention, then the dense feed-forward part or the experts. For the backward pass, parts of that
// once more (plan.recompute).
#pragma once
#include "models/schedule/builder/attention_part.hpp"
#include "models/schedule/builder/dense_ffn_part.hpp"
#include "models/schedule/builder/moe_part.hpp"

namespace dovetail::builder {

// Tensors that the forward pass of a layer leaves for its backward pass.
struct SavedLayer {
  TensorId output;  // which the next layer takes in
  SavedAttention attention;
  SavedMoe moe;
  SavedFfn ffn;
};

// From a layer's input (T, M) to its output.
TensorId layer_forward(StepContext& c, int layer, TensorId x, SavedLayer& saved);

// The backward pass reads these instead of what the plan did not keep (plan.recompute): each makes it again, after
// `begin`, and puts it into `saved`; if the plan keeps all that it is about, it does nothing. The whole layer, before
// its backward pass; its dense feed-forward part, or its shared experts; its experts, before decode's backward pass.
void recompute_layer(StepContext& c, int layer, OpId begin, SavedLayer& saved);
void recompute_dense_part(StepContext& c, int layer, OpId begin, SavedLayer& saved);
void recompute_experts(StepContext& c, int layer, OpId begin, SavedMoe& saved);

}  // namespace dovetail::builder
