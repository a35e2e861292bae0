// The MoE part of one layer: gate, encode, experts, decode.
#pragma once
#include "models/builder/expert_part.hpp"
#include "models/builder/expert_weights.hpp"

namespace dovetail::builder {

struct SavedMoe {
  TensorId input = -1, routing = -1;
  TensorIds combined;  // by forward chunk, then by shadowed expert
  SavedExperts experts;
  std::vector<SavedShadow> shadows;
};

// From the layer's input and the attention's output, which the gate adds up, to the layer's output.
TensorId moe_forward(StepContext& c, int layer, TensorId x, TensorId attended, SavedMoe& saved);

// `gradient`: parts (one or two) that add up to the output's gradient. Returns d_moe_input.
TensorId moe_backward(StepContext& c, int layer, const TensorIds& gradient, const SavedMoe& saved,
                      const std::function<void()>& after_sends);

}  // namespace dovetail::builder
