// SPDX-License-Identifier: Apache-2.0
#include "models/files/hf_conventions.hpp"

#include <array>

namespace dovetail {
namespace {

constexpr std::string_view outer_norms = "norms of what attention and the feed-forward part give";

// As the modelling code of each family has it: the vendors' own, or that of mlx-lm. Phi's routing is known from
// descriptions alone.
constexpr std::array families{
    HfConventions{.model_type = "llama"},
    HfConventions{.model_type = "mistral"},
    HfConventions{.model_type = "mixtral", .normalise = true},
    HfConventions{.model_type = "qwen2", .biases = Biases::QueryKeyValue, .expert_size = true, .shared_gate = true},
    HfConventions{.model_type = "qwen3", .qk_norm = QkNorm::Head, .expert_size = true},
    HfConventions{.model_type = "qwen3_next",
                  .qk_norm = QkNorm::Head,
                  .normalise = true,
                  .expert_size = true,
                  .shared_gate = true,
                  .output_gate = OutputGate::Element},
    HfConventions{.model_type = "qwen3_5",
                  .qk_norm = QkNorm::Head,
                  .normalise = true,
                  .expert_size = true,
                  .shared_gate = true,
                  .output_gate = OutputGate::Element},
    HfConventions{.model_type = "olmoe", .qk_norm = QkNorm::Width},
    HfConventions{.model_type = "deepseek_v2", .expert_size = true},
    HfConventions{.model_type = "deepseek_v3",
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true},
    HfConventions{.model_type = "kimi_k2",
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true},
    HfConventions{.model_type = "kimi_linear",
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true},
    HfConventions{.model_type = "nemotron_h",
                  .kind = ExpertKind::Ffn,
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true},
    HfConventions{.model_type = "glm_moe_dsa",
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true},
    HfConventions{.model_type = "glm4",
                  .attention_bias = Biases::QueryKeyValue,
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true},
    HfConventions{.model_type = "gpt_oss",
                  .biases = Biases::All,
                  .normalise = true,
                  .sinks = true,
                  .left_out = "the router's biases, one number for each expert"},
    HfConventions{.model_type = "llama4",
                  .use_qk_norm = QkNorm::None,
                  .scoring = Scoring::Sigmoid,
                  .shared_experts = 1,
                  .left_out = "norms of queries and keys, which have no weights"},
    HfConventions{.model_type = "dbrx"},
    HfConventions{.model_type = "phi3small", .norms = NormKind::Layer, .biases = Biases::All, .tied_embeddings = true},
    HfConventions{.model_type = "phimoe", .norms = NormKind::Layer},
    HfConventions{.model_type = "hunyuan", .normalise = true, .expert_size = true},
    HfConventions{
        .model_type = "minimax", .use_qk_norm = QkNorm::Width, .scoring = Scoring::Sigmoid, .normalise = true},
    HfConventions{.model_type = "granite", .normalise = true},
    HfConventions{.model_type = "jamba"},
    HfConventions{.model_type = "step3p",
                  .qk_norm = QkNorm::Head,
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .expert_size = true},
    HfConventions{.model_type = "minimax_m1", .normalise = true},
    HfConventions{.model_type = "minimax_text_01", .normalise = true},
    HfConventions{.model_type = "lfm2",
                  .qk_norm = QkNorm::Head,
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true,
                  .tied_embeddings = true},
    HfConventions{.model_type = "mimo_v2",
                  .scoring = Scoring::Sigmoid,
                  .normalise = true,
                  .correction_bias = true,
                  .expert_size = true,
                  .left_out = "sinks of attention in windows"},
    HfConventions{.model_type = "ernie4_5", .normalise = true, .correction_bias = true, .expert_size = true},
    HfConventions{.model_type = "arctic"},
    HfConventions{.model_type = "grok", .normalise = true, .expert_size = true, .left_out = outer_norms},
    HfConventions{.model_type = "git", .normalise = true, .expert_size = true, .left_out = outer_norms},  // Grok-2
    HfConventions{.model_type = "gemma", .tied_embeddings = true},
    HfConventions{.model_type = "gemma2", .tied_embeddings = true, .full_attention_every = 2, .left_out = outer_norms},
    HfConventions{.model_type = "gemma3",
                  .qk_norm = QkNorm::Head,
                  .tied_embeddings = true,
                  .full_attention_every = 6,
                  .left_out = outer_norms},
    HfConventions{.model_type = "gemma4",
                  .qk_norm = QkNorm::Head,
                  .expert_size = true,
                  .tied_embeddings = true,
                  .left_out = outer_norms},
    HfConventions{.model_type = "gpt_neox", .kind = ExpertKind::Ffn, .norms = NormKind::Layer, .biases = Biases::All},
    HfConventions{.model_type = "gpt2",
                  .kind = ExpertKind::Ffn,
                  .norms = NormKind::Layer,
                  .biases = Biases::All,
                  .tied_embeddings = true},
};

}  // namespace

const HfConventions* find_conventions(std::string_view model_type) {
  const HfConventions* longest = nullptr;
  for (const HfConventions& family : families)
    if (model_type.starts_with(family.model_type) &&
        (longest == nullptr || family.model_type.size() > longest->model_type.size()))
      longest = &family;
  return longest;
}

}  // namespace dovetail
