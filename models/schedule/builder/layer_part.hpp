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

// What the backward pass reads instead of what the plan did not keep. Each adds the ops that make it again, after
// `begin`, and changes `saved`; if the plan keeps all that it is about, it does nothing.
void recompute_layer(StepContext& c, int layer, OpId begin, SavedLayer& saved);

}  // namespace dovetail::builder
