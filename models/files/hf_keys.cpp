// SPDX-License-Identifier: Apache-2.0
#include "models/files/hf_keys.hpp"

#include <algorithm>

namespace dovetail {
namespace {

constexpr std::string_view ends[] = {"_token_id",   "_token_ids", "_token_index", "_dropout", "_pdrop", "_eps",
                                     "_epsilon",    "_range",     "_coef",        "_coeff",   "_std",   "_softcapping",
                                     "_multiplier", "_theta",     "_alpha",       "_beta"};
constexpr std::string_view begins[] = {
    "_",      "time_step_", "mamba_ssm_", "rope_", "rotary_", "original_max_position", "quantization", "initializer_",
    "output_"};
constexpr std::string_view others[] = {
    "architectures", "model_type", "auto_map", "transformers_version", "torch_dtype", "dtype", "use_cache",
    "max_position_embeddings", "max_sequence_length", "model_max_length", "seq_length", "n_ctx", "max_seq_len",
    "hidden_act", "hidden_activation", "activation_function", "swiglu_limit", "attention_dropout", "clip_qkv",
    "resid_dropout", "embedding_multiplier_scale", "output_multiplier_scale", "logits_scaling", "logit_scale",
    "attn_logit_softcap", "final_logit_softcap", "query_pre_attn_scalar", "attn_temperature_len", "floor_scale",
    "attn_scale", "attn_temperature_tuning", "partial_rotary_factor", "mrope_section", "norm_type", "layernorm_type",
    "qk_norm_type", "cache_implementation", "pretraining_tp", "ep_size", "num_experts_per_group", "seq_aux",
    "aux_loss_free", "router_jitter_noise", "input_jitter_noise", "moe_token_dropping", "moe_min_capacity",
    "moe_eval_capacity_factor", "moe_train_capacity_factor", "moe_capacity_factor", "enable_expert_tensor_parallelism",
    "task_specific_params", "summary_type", "summary_activation", "summary_use_proj", "summary_first_dropout",
    "summary_proj_to_labels", "id2label", "label2id", "use_flash_attn", "is_decoder", "tokenizer_class",
    "scaling_factor", "extrapolation_factor", "attn_factor", "beta_fast", "beta_slow", "router_dtype", "mlp_hidden_act",
    "mamba_hidden_act", "mamba_proj_bias", "mamba_chunk_size", "chunk_size", "use_mamba_kernels", "num_logits_to_keep",
    "rescale_prenorm_residual", "residual_in_fp32", "indexer_rope_interleave", "mla_use_nope", "use_gemma_norm",
    "use_grouped_topk", "postnorm", "unsloth_version", "model_name", "moe_router_dtype",
    // Settings of generation, which transformers writes beside the model.
    "chunk_size_feed_forward", "diversity_penalty", "encoder_no_repeat_ngram_size", "length_penalty", "max_length",
    "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "pruned_heads",
    "repetition_penalty", "return_dict", "temperature", "top_k", "top_p", "typical_p"};

}  // namespace

bool says_no_work(std::string_view key) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return key.ends_with(end); }) ||
         std::ranges::any_of(begins, [&](std::string_view begin) { return key.starts_with(begin); }) ||
         std::ranges::count(others, key) > 0;
}

}  // namespace dovetail
