// SPDX-License-Identifier: Apache-2.0
// The MoE part of one layer: gate and encode, experts, decode. Gate, encode and decode cover the tokens of one part.
#pragma once
#include "models/schedule/builder/expert_part.hpp"
#include "models/schedule/builder/expert_weights.hpp"

namespace dovetail::builder {

struct SavedMoe {
  TensorIds input;          // by part
  TensorIds normed;         // by part; empty: the workload leaves norms out
  TensorIds routing;        // by part; -1: soft
  TensorIds mask, weights;  // by part; -1: sparse encoding
  TensorIds combined;       // by forward chunk, then by shadowed expert
  SavedExperts experts;
  std::vector<SavedShadow> shadows;
};

// From the layer's input and the attention's output, which the gate adds up, to the part's chunks, as they are sent,
// and the rows of shadowed experts.
TensorIds encode_forward(StepContext& c, int layer, const TokenPart& part, TensorId x, TensorId attended,
                         SavedMoe& saved);
// In the backward pass (plan.recompute): the chunks again, from what the gate looks at, which is in `saved`; and, after
// `begin` and if the plan does not keep it, the norm that the gate looks at.
TensorIds encode_again(StepContext& c, int layer, const TokenPart& part, SavedMoe& saved);
void recompute_normed(StepContext& c, int layer, const TokenPart& part, OpId begin, SavedMoe& saved);
// `combined`: the part's chunks as they came, which are kept as decode reads them.
void receive_rows(StepContext& c, int layer, const TokenPart& part, const TensorIds& combined, SavedMoe& saved);
// Writes the part's tokens of the layer's output.
void decode_forward(StepContext& c, int layer, const TokenPart& part, TensorId output, const SavedMoe& saved);

struct DecodeGradients {
  TensorId output, score;  // of the scores: left to encode_backward where the experts apply them
  TensorIds combined;      // of the part's backward chunks, as they are sent
  TensorIds shadows;       // of shadow_output
};
// `gradient`: parts (one or two) that add up to the output's gradient.
DecodeGradients decode_backward(StepContext& c, int layer, const TokenPart& part, const TensorIds& gradient,
                                const SavedMoe& saved);
// `d_encoded`: the part's chunks as they came; `d_shadows`: of shadow_input. Returns d_moe_input or,
// with norms, d_normed_moe_input.
TensorId encode_backward(StepContext& c, int layer, const TokenPart& part, const DecodeGradients& decoded,
                         const BroughtRows& d_encoded, const TensorIds& d_shadows, const SavedMoe& saved);

}  // namespace dovetail::builder
