// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/megatron_table.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "bench/imports/megatron_silent.hpp"

namespace dovetail::bench {
namespace {

using Row = MegatronArgument;
using enum Takes;
using enum Effect;

constexpr std::string_view no_ssm = "layers that are no attention, such as Mamba, are not built";
constexpr std::string_view no_fsdp = "weights sharded over ranks (FSDP) are not built; ZeRO-1 stands in";
constexpr std::string_view no_offload = "offloading to the host is not built for it";
constexpr std::string_view other_optimizer = "the optimizer of a step here is Adam";
constexpr std::string_view tp_overlap = "products that overlap tensor parallelism's exchanges are not built";
constexpr std::string_view other_router = "routers of this kind are not modelled; tokens choose all experts alike";
constexpr std::string_view fp8_detail = "products in fp8 are those of blockwise scaling here";
constexpr std::string_view other_training = "a step here is one of pretraining a language model";
constexpr std::string_view own_kernel = "the time of this kernel is not known apart from that of others";

constexpr std::array rows{
    // The model.
    Row{"num_layers", Whole, "", Sets, "model.layers"},
    Row{"hidden_size", Whole, "", Sets, "model.hidden"},
    Row{"ffn_hidden_size", Whole, "", Sets, "model.dense_hidden"},
    Row{"num_attention_heads", Whole, "", Sets, "model.attention.heads"},
    Row{"group_query_attention", Nothing, "", Sets, "model.attention.kv_heads"},
    Row{"num_query_groups", Whole, "1", Sets, "model.attention.kv_heads"},
    Row{"kv_channels", Whole, "", Sets, "model.attention.head_size"},
    Row{"multi_latent_attention", Nothing, "", Sets, "model.attention.kind"},
    Row{"q_lora_rank", Whole, "0", Sets, "model.attention.q_rank"},
    Row{"kv_lora_rank", Whole, "32", Sets, "model.attention.kv_rank"},
    Row{"qk_head_dim", Whole, "128", Sets, "model.attention.nope_size"},
    Row{"qk_pos_emb_head_dim", Whole, "64", Sets, "model.attention.rope_size"},
    Row{"v_head_dim", Whole, "128", Sets, "model.attention.value_size"},
    Row{"qk_layernorm", Nothing, "", Sets, "model.attention.qk_norm"},
    Row{"qk_l2_norm", Nothing, "", Sets, "model.attention.qk_norm"},
    Row{"softmax_type", Word, "vanilla", Sets, "model.attention.sinks"},
    Row{"window_size", Words, "", Sets, "model.attention.window"},
    Row{"window_attn_skip_freq", Words, "", Sets, "model.attention.windowed_layers"},
    Row{"attention_output_gate", Nothing, "", Sets, "model.attention.gate"},
    Row{"experimental_attention_variant", Word, "", Sets, "model.recurrence.kind"},
    Row{"linear_attention_freq", Words, "", Sets, "model.recurrence.layers"},
    Row{"linear_conv_kernel_dim", Whole, "4", Sets, "model.recurrence.convolution"},
    Row{"linear_key_head_dim", Whole, "128", Sets, "model.recurrence.key_size"},
    Row{"linear_value_head_dim", Whole, "128", Sets, "model.recurrence.value_size"},
    Row{"linear_num_key_heads", Whole, "16", Sets, "model.recurrence.key_heads"},
    Row{"linear_num_value_heads", Whole, "32", Sets, "model.recurrence.heads"},
    Row{"dsa_indexer_n_heads", Whole, "", Sets, "model.attention.index.heads"},
    Row{"dsa_indexer_head_dim", Whole, "", Sets, "model.attention.index.size"},
    Row{"dsa_indexer_topk", Whole, "", Sets, "model.attention.window"},
    Row{"swiglu", Nothing, "", Sets, "model.expert_kind"},
    Row{"quick_geglu", Nothing, "", Sets, "model.expert_kind"},
    Row{"squared_relu", Nothing, "", Sets, "model.expert_kind"},
    Row{"openai_gelu", Nothing, "", Sets, "model.expert_kind"},
    Row{"normalization", Word, "LayerNorm", Sets, "model.norms"},
    Row{"disable_bias_linear", Nothing, "", Sets, "model.biases"},
    Row{"add_qkv_bias", Nothing, "", Sets, "model.biases"},
    Row{"untie_embeddings_and_output_weights", Nothing, "", Sets, "model.tied_embeddings"},
    Row{"vocab_size", Whole, "", Sets, "model.vocabulary"},
    Row{"padded_vocab_size", Whole, "", Sets, "model.vocabulary"},
    Row{"make_vocab_size_divisible_by", Whole, "128", Sets, "model.vocabulary"},
    Row{"no_pad_vocab_size", Nothing, "", Sets, "model.vocabulary"},
    Row{"disable_pad_vocab_size", Nothing, "", Sets, "model.vocabulary"},
    Row{"tokenizer_type", Word, "", Sets, "model.vocabulary"},
    Row{"merge_file", Any, "", Sets, "model.vocabulary"},
    Row{"position_embedding_type", Word, "learned_absolute", Sets, "model.learned_positions"},
    Row{"use_rotary_position_embeddings", Nothing, "", Sets, "model.learned_positions"},
    Row{"no_position_embedding", Nothing, "", Sets, "model.learned_positions"},
    Row{"max_position_embeddings", Whole, "", Sets, "model.learned_positions"},
    Row{"num_experts", Whole, "0", Sets, "model.experts"},
    Row{"moe_ffn_hidden_size", Whole, "", Sets, "model.expert_hidden"},
    Row{"moe_layer_freq", Words, "1", Sets, "model.first_dense and model.moe_every"},
    Row{"moe_shared_expert_intermediate_size", Whole, "0", Sets, "model.shared_experts"},
    Row{"moe_shared_expert_gate", Nothing, "", Sets, "model.shared_experts.gate"},
    Row{"moe_router_topk", Whole, "2", Sets, "model.top_k"},
    Row{"moe_router_score_function", Word, "softmax", Sets, "model.router.scoring"},
    Row{"moe_router_num_groups", Whole, "1", Sets, "model.router.groups"},
    Row{"moe_router_group_topk", Whole, "", Sets, "model.router.top_groups"},
    Row{"moe_router_topk_scaling_factor", Number, "1", Sets, "model.router.scale"},
    Row{"moe_router_pre_softmax", Nothing, "", Sets, "model.router.normalise"},
    Row{"moe_router_enable_expert_bias", Nothing, "", Sets, "model.router.correction_bias"},
    Row{"mtp_num_layers", Whole, "0", Sets, "model.mtp_layers"},
    // Groups.
    Row{"tensor_model_parallel_size", Whole, "1", Sets, "parallelism.mp"},
    Row{"pipeline_model_parallel_size", Whole, "1", Sets, "parallelism.pp"},
    Row{"expert_model_parallel_size", Whole, "1", Sets, "parallelism.ep"},
    Row{"expert_tensor_parallel_size", Whole, "", Sets, "parallelism.esp"},
    Row{"sequence_parallel", Nothing, "", Sets, "parallelism.sequence_parallel"},
    Row{"pipeline_model_parallel_layout", Word, "", Sets, "parallelism.pipeline_layout"},
    Row{"decoder_first_pipeline_num_layers", Whole, "", Sets, "parallelism.pipeline_layout"},
    Row{"decoder_last_pipeline_num_layers", Whole, "", Sets, "parallelism.pipeline_layout"},
    Row{"account_for_embedding_in_pipeline_split", Nothing, "", Sets, "parallelism.pipeline_layout"},
    Row{"account_for_loss_in_pipeline_split", Nothing, "", Sets, "parallelism.pipeline_layout"},
    Row{"num_layers_per_virtual_pipeline_stage", Whole, "", Sets, "plan.virtual_stages"},
    Row{"num_virtual_stages_per_pipeline_rank", Whole, "", Sets, "plan.virtual_stages"},
    Row{"context_parallel_size", Whole, "1", Missing, "context parallelism is not built; each group has whole samples"},
    Row{"hierarchical_context_parallel_sizes", Words, "", Missing, "context parallelism is not built"},
    Row{"hybrid_context_parallel", Nothing, "", Missing, "context parallelism is not built"},
    Row{"tensor_parallel_num_weight_shards", Whole, "1", Missing, no_fsdp},
    Row{"expert_tensor_parallel_num_weight_shards", Whole, "1", Missing, no_fsdp},
    Row{"use_tp_pp_dp_mapping", Nothing, "", Missing,
        "ranks are numbered tensor, data, pipeline here, so that other groups lie inside nodes"},
    Row{"microbatch_group_size_per_virtual_pipeline_stage", Whole, "", Missing, "it is the number of stages here"},
    // Batch and precision.
    Row{"micro_batch_size", Whole, "", Sets, "workload.micro_batch"},
    Row{"global_batch_size", Whole, "", Sets, "workload.global_batch"},
    Row{"seq_length", Whole, "", Sets, "workload.sequence"},
    Row{"rampup_batch_size", Words, "", Missing, "a step has the global batch that is reached at the end"},
    Row{"step_batch_size_schedule", Word, "", Missing, "a step has the global batch that is reached at the end"},
    Row{"bf16", Nothing, "", Sets, "workload.dtype"},
    Row{"fp16", Nothing, "", Sets, "workload.dtype"},
    Row{"fp8_format", Word, "", Sets, "workload.products"},
    Row{"fp8_recipe", Word, "delayed", Sets, "workload.products"},
    Row{"fp4_format", Word, "", Missing, "products in fp4 are not built; they stay in the format of the workload"},
    Row{"first_last_layers_bf16", Nothing, "", Missing, "all layers have products of one format"},
    Row{"no_fp8_wgrad", Nothing, "", Missing, fp8_detail},
    Row{"disable_fp8_wgrad", Nothing, "", Missing, fp8_detail},
    Row{"fp8_output_proj", Nothing, "", Missing, "the output head's products are in the format of the workload"},
    Row{"fp32_residual_connection", Nothing, "", Missing, "sums of a layer are in the format of the workload"},
    Row{"accumulate_allreduce_grads_in_fp32", Nothing, "", Sets, "workload.gradients"},
    Row{"grad_reduce_in_bf16", Nothing, "", Sets, "workload.gradients"},
    Row{"main_grads_dtype", Word, "fp32", Sets, "workload.gradients"},
    Row{"clip_grad", Number, "1", Sets, "workload.clip_gradients"},
    Row{"attention_backend", Word, "auto", Sets, "workload.attention"},
    Row{"moe_expert_capacity_factor", Number, "", Sets, "workload.capacity_factor"},
    Row{"moe_pad_expert_input_to_capacity", Nothing, "", Sets, "workload.message_sizes"},
    // Optimizer and gradients.
    Row{"use_distributed_optimizer", Nothing, "", Sets, "plan.zero"},
    Row{"overlap_grad_reduce", Nothing, "", Sets, "plan.grad_sync"},
    Row{"ddp_bucket_size", Whole, "", Sets, "plan.gradient_chunk_bytes"},
    Row{"overlap_param_gather", Nothing, "", Sets, "plan.parameter_gather"},
    Row{"ddp_num_buckets", Whole, "", Missing, "gradients are reduced layer by layer, or in buckets of one size"},
    Row{"num_distributed_optimizer_instances", Whole, "1", Missing, "the optimizer is sharded over all replicas"},
    Row{"overlap_param_gather_with_optimizer_step", Nothing, "", Missing, "weights are gathered when all are updated"},
    Row{"optimizer", Word, "adam", Missing, other_optimizer},
    Row{"optimizer_cpu_offload", Nothing, "", Missing, no_offload},
    Row{"use_precision_aware_optimizer", Nothing, "", Missing, "Adam's states are in fp32"},
    Row{"main_params_dtype", Word, "fp32", Missing, "Adam's states are in fp32"},
    Row{"exp_avg_dtype", Word, "fp32", Missing, "Adam's states are in fp32"},
    Row{"exp_avg_sq_dtype", Word, "fp32", Missing, "Adam's states are in fp32"},
    Row{"use_megatron_fsdp", Nothing, "", Missing, no_fsdp},
    Row{"use_torch_fsdp2", Nothing, "", Missing, no_fsdp},
    Row{"data_parallel_sharding_strategy", Word, "no_shard", Missing, no_fsdp},
    Row{"outer_dp_sharding_strategy", Word, "no_shard", Missing, no_fsdp},
    Row{"reuse_grad_buf_for_mxfp8_param_ag", Nothing, "", Missing, fp8_detail},
    // Recomputing.
    Row{"recompute_granularity", Word, "", Sets, "plan.recompute"},
    Row{"recompute_method", Word, "", Sets, "plan.recompute"},
    Row{"recompute_num_layers", Whole, "", Sets, "plan.recompute"},
    Row{"recompute_modules", Words, "core_attn", Sets, "plan.recompute"},
    Row{"recompute_activations", Nothing, "", Sets, "plan.recompute"},
    Row{"moe_layer_recompute", Nothing, "", Sets, "plan.recompute"},
    Row{"distribute_saved_activations", Nothing, "", Missing, "each rank keeps what its own backward pass needs"},
    Row{"cpu_offloading_num_layers", Whole, "0", Missing, no_offload},
    Row{"fine_grained_activation_offloading", Nothing, "", Missing, no_offload},
    Row{"offload_modules", Words, "", Missing, no_offload},
    Row{"moe_paged_stash", Nothing, "", Missing, no_offload},
    // Experts.
    Row{"moe_token_dispatcher_type", Word, "allgather", Sets, "plan.all_to_all"},
    Row{"moe_flex_dispatcher_backend", Word, "deepep", Sets, "plan.all_to_all"},
    Row{"moe_enable_deepep", Nothing, "", Sets, "plan.all_to_all"},
    Row{"moe_deepep_num_sms", Whole, "", Sets, "plan.comm_sms"},
    Row{"moe_flex_dispatcher_num_sms", Whole, "", Sets, "plan.comm_sms"},
    Row{"moe_hybridep_num_sms", Whole, "", Sets, "plan.comm_sms"},
    Row{"moe_dispatch_fwd_dtype", Word, "bf16", Sets, "plan.dispatch_wire"},
    Row{"moe_combine_bwd_dtype", Word, "bf16", Missing, "the gradients of combined rows go in the workload's format"},
    Row{"moe_grouped_gemm", Nothing, "", Sets, "plan.expert_kernel"},
    Row{"moe_apply_probs_on_input", Nothing, "", Missing, "scores are applied to what experts make"},
    Row{"moe_latent_size", Whole, "", Missing, "experts of another width than the model's are not built"},
    Row{"moe_expert_rank_capacity_factor", Number, "", Missing, "capacity is that of an expert, not of a rank"},
    Row{"moe_router_force_load_balancing", Nothing, "", Sets, "workload.routing"},
    Row{"moe_router_force_biased", Number, "", Missing, other_router},
    Row{"moe_router_quantile_balancing_ema", Number, "0", Missing, other_router},
    Row{"moe_use_upcycling", Nothing, "", Missing, "a step with upcycled experts is that of the model's own sizes"},
    // Overlap and graphs.
    Row{"overlap_moe_expert_parallel_comm", Nothing, "", Sets, "plan.scope"},
    Row{"ep_overlap_early_attn_memory_release", Nothing, "", Sets, "plan.pair_order"},
    Row{"delay_wgrad_compute", Nothing, "", Sets, "plan.delay_weight_gradient"},
    Row{"overlap_dispatch_backward_with_experts_wgrad", Nothing, "", Sets, "plan.delay_weight_gradient"},
    Row{"moe_shared_expert_overlap", Nothing, "", Sets, "plan.shared_experts"},
    Row{"cuda_graph_impl", Word, "none", Sets, "plan.graphs"},
    Row{"cuda_graph_modules", Words, "full", Sets, "plan.graphs"},
    Row{"cuda_graph_scope", Words, "full", Sets, "plan.graphs"},
    Row{"enable_cuda_graph", Nothing, "", Sets, "plan.graphs"},
    Row{"external_cuda_graph", Nothing, "", Sets, "plan.graphs"},
    Row{"optimizer_cuda_graph", Nothing, "", Missing, "graphs hold no part of the optimizer"},
    Row{"tp_comm_overlap", Nothing, "", Missing, tp_overlap},
    Row{"tp_comm_overlap_rs_dgrad", Nothing, "", Missing, tp_overlap},
    Row{"defer_embedding_wgrad_compute", Nothing, "", Missing,
        "the output head's gradients come with its backward pass"},
    Row{"no_overlap_p2p_communication", Nothing, "", Missing, "messages between stages never hold up computation"},
    Row{"overlap_p2p_communication_warmup_flush", Nothing, "", Missing, "messages between stages overlap in any case"},
    Row{"use_nccl_ub", Nothing, "", Missing, "collectives take the times of the calibration"},
    Row{"use_sharp", Nothing, "", Missing, "collectives take the times of the calibration"},
    Row{"symmetric_ar_type", Word, "", Missing, "collectives take the times of the calibration"},
    Row{"high_priority_a2a_comm_stream", Nothing, "", Missing, "streams have no priorities"},
    // Switches of the framework file.
    Row{"moe_router_fusion", Nothing, "", Option, "router_fusion"},
    Row{"moe_permute_fusion", Nothing, "", Option, "permute_fusion"},
    Row{"cross_entropy_loss_fusion", Nothing, "", Option, "cross_entropy_fusion"},
    Row{"cross_entropy_fusion_impl", Word, "native", Option, "cross_entropy_te_fusion"},
    Row{"moe_router_load_balancing_type", Words, "aux_loss", Option, "aux_loss and sinkhorn"},
    Row{"moe_aux_loss_coeff", Words, "0", Option, "aux_loss"},
    Row{"no_check_for_nan_in_loss_and_grad", Nothing, "", Option, "nan_check"},
    Row{"fp8_param_gather", Nothing, "", Option, "fp8_copies"},
    Row{"no_gradient_accumulation_fusion", Nothing, "", Option, "gradient_accumulation_fusion"},
    Row{"attention_dropout", Number, "0.1", Option, "dropout"},
    Row{"hidden_dropout", Number, "0.1", Option, "dropout"},
    Row{"deterministic_mode", Nothing, "", Option, "deterministic"},
    Row{"no_bias_gelu_fusion", Nothing, "", Option, "activation_fusion"},
    Row{"no_bias_swiglu_fusion", Nothing, "", Option, "activation_fusion"},
    Row{"enable_experimental", Nothing, "", Option, "experimental"},
    Row{"log_params_norm", Nothing, "", Option, "log_params_norm"},
    Row{"log_num_zeros_in_grad", Nothing, "", Option, "log_num_zeros_in_grad"},
    // Kernels and variants that are not modelled.
    Row{"transformer_impl", Word, "transformer_engine", Missing, "the host's work is that of Transformer Engine"},
    Row{"no_rope_fusion", Nothing, "", Missing, "rotary positions are one kernel here"},
    Row{"no_bias_dropout_fusion", Nothing, "", Missing, own_kernel},
    Row{"no_masked_softmax_fusion", Nothing, "", Missing, own_kernel},
    Row{"no_persist_layer_norm", Nothing, "", Missing, own_kernel},
    Row{"fused_residual_rmsnorm", Nothing, "", Missing, own_kernel},
    Row{"use_transformer_engine_op_fuser", Nothing, "", Missing, own_kernel},
    Row{"use_te_activation_func", Nothing, "", Missing, own_kernel},
    Row{"moe_permute_fusion_into_hybridep", Nothing, "", Missing, own_kernel},
    Row{"mla_down_proj_fusion", Nothing, "", Missing, own_kernel},
    Row{"use_kitchen_attention", Nothing, "", Missing, own_kernel},
    Row{"batch_invariant_mode", Nothing, "", Missing, own_kernel},
    Row{"hybrid_layer_pattern", Word, "", Missing, no_ssm},
    Row{"hybrid_override_pattern", Word, "", Missing, no_ssm},
    Row{"is_hybrid_model", Nothing, "", Missing, no_ssm},
    Row{"spec", Words, "", Missing, "the layers of another module are not known"},
    Row{"heterogeneous_layers_config_path", Word, "", Missing, "layers of unlike sizes are not built"},
    Row{"heterogeneous_layers_config_encoded_json", Word, "", Missing, "layers of unlike sizes are not built"},
    Row{"enable_mhc_connections", Nothing, "", Missing, "a layer has one residual stream"},
    Row{"mtp_use_repeated_layer", Nothing, "", Missing, "layers of multi-token prediction have weights of their own"},
    Row{"perform_rl_step", Nothing, "", Missing, other_training},
    Row{"sft", Nothing, "", Missing, other_training},
    Row{"encoder_seq_length", Whole, "", Missing, "models with an encoder are not built"},
    Row{"decoder_seq_length", Whole, "", Missing, "models with an encoder are not built"},
    Row{"freeze_all_layers", Nothing, "", Missing, other_training},
    Row{"manual_gc", Nothing, "", Missing, "collections of Python's garbage are in no step here"},
    Row{"log_straggler", Nothing, "", Missing, "the waits of this log are not counted"},
    Row{"no_rope_freq", Word, "", Missing, "all layers have rotary positions"},
    Row{"apply_residual_connection_post_layernorm", Nothing, "", Missing, "sums of a layer begin before its norm"},
    Row{"fp16_lm_cross_entropy", Nothing, "", Missing, "the loss works in fp32"},
    Row{"moe_router_padding_for_fp8", Nothing, "", Missing, "rows of an expert are not padded for fp8"},
    Row{"moe_router_padding_for_quantization", Nothing, "", Missing, "rows of an expert are not padded for fp8"},
    Row{"keep_fp8_transpose_cache", Nothing, "", Missing, fp8_detail},
    Row{"disable_jit_fuser", Nothing, "", Missing, own_kernel},
    Row{"use_fused_weighted_squared_relu", Nothing, "", Missing, own_kernel},
    Row{"use_grouped_gemm_for_dense_mlp", Nothing, "", Missing, own_kernel},
    Row{"use_grouped_gemm_for_shared_expert", Nothing, "", Missing, own_kernel},
    Row{"moe_use_grouped_tensor", Nothing, "", Missing, own_kernel},
    Row{"relative_attention_num_buckets", Whole, "32", Missing, "relative positions are not built"},
    Row{"use_checkpoint_args", Nothing, "", Missing, "the arguments of a checkpoint are not read"},
    Row{"use_mp_args_from_checkpoint_args", Nothing, "", Missing, "the arguments of a checkpoint are not read"},
    Row{"skip_train", Nothing, "", Missing, other_training},
    Row{"model_parallel_size", Whole, "", Missing, "Megatron-LM refuses it; it is --tensor-model-parallel-size today"},
    Row{"batch_size", Whole, "", Missing, "Megatron-LM refuses it; it is --micro-batch-size today"},
    Row{"checkpoint_activations", Nothing, "", Missing, "Megatron-LM refuses it; it is --recompute-granularity today"},
    Row{"yaml_cfg", Word, "", Missing, "arguments of another file are not read; import that file"},
};

// Names in order, with where each row is.
std::map<std::string, MegatronArgument, std::less<>> all_rows() {
  std::map<std::string, MegatronArgument, std::less<>> all;
  for (const std::string_view name : silent_megatron_arguments()) all.emplace(name, Row{.name = name});
  for (const Row& row : rows) all[std::string(row.name)] = row;
  return all;
}

const std::map<std::string, MegatronArgument, std::less<>>& known_rows() {
  static const auto all = all_rows();
  return all;
}

}  // namespace

std::span<const MegatronArgument> megatron_arguments() {
  return rows;
}

const MegatronArgument* find_megatron_argument(std::string_view name) {
  std::string key(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::ranges::replace(key, '-', '_');
  const auto found = known_rows().find(key);
  return found == known_rows().end() ? nullptr : &found->second;
}

const std::vector<std::string>& megatron_argument_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, row] : known_rows()) list.push_back(name);
    return list;
  }();
  return names;
}

}  // namespace dovetail::bench
