// SPDX-License-Identifier: Apache-2.0
// Facts of families of checkpoints that stand in the code which runs them, not in their config.json.
#pragma once
#include <string_view>

#include "models/question/model.hpp"

namespace dovetail {

struct HfConventions {
  std::string_view model_type;  // or how it begins: "qwen3" is of qwen3_moe and qwen3_vl_moe_text too
  ExpertKind kind = ExpertKind::Gated;
  NormKind norms = NormKind::Rms;
  Biases biases = Biases::None;               // whatever the config says
  Biases attention_bias = Biases::Attention;  // if the config says attention_bias
  QkNorm qk_norm = QkNorm::None;              // whatever the config says
  QkNorm use_qk_norm = QkNorm::Head;          // if the config says use_qk_norm
  Scoring scoring = Scoring::Softmax;         // unless the config says it
  bool normalise = false;                     // unless the config says norm_topk_prob
  bool correction_bias = false;               // unless the config says topk_method
  bool expert_size = false;                   // the hidden size of an expert has a key of its own
  int shared_experts = 0;                     // of the size of a routed one, without a key
  bool shared_gate = false;
  bool sinks = false;  // of attention
  OutputGate output_gate = OutputGate::None;
  bool tied_embeddings = false;    // unless the config says tie_word_embeddings
  int full_attention_every = 0;    // each so many-th layer has no window, unless the config says it; 0: none
  std::string_view left_out = {};  // a sentence; empty: nothing
};

// The longest that the type begins with. Null: the family is not known.
const HfConventions* find_conventions(std::string_view model_type);

}  // namespace dovetail
