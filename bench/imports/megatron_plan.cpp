// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/megatron_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "models/base/dtype.hpp"
#include "models/base/json/json_text.hpp"
#include "models/question/workload.hpp"

namespace dovetail::bench {
namespace {

using Settings = MegatronSettings;

DType workload_format(const Settings& s) {
  if (s.on("bf16") && s.on("fp16")) s.fail("fp16", "given beside --bf16; expected one of them");
  return s.on("bf16") ? DType::Bf16 : s.on("fp16") ? DType::Fp16 : DType::Fp32;
}

// Training in bf16 adds gradients up in fp32 unless it is told otherwise; training in fp16 does so where it is told.
DType gradient_format(const Settings& s) {
  const DType format = workload_format(s);
  const std::string main_gradients = s.choice("main_grads_dtype", {"fp32", "bf16", "fp16"});
  if (s.on("accumulate_allreduce_grads_in_fp32")) return DType::Fp32;
  if (s.on("grad_reduce_in_bf16")) return DType::Bf16;
  return format == DType::Bf16 && main_gradients == "fp32" ? DType::Fp32 : format;
}

bool eager_attention(const Settings& s) {
  const std::string backend = s.choice("attention_backend", {"auto", "flash", "fused", "unfused", "local"});
  return backend == "unfused" || backend == "local";
}

void read_gradients(const Settings& s, Plan& plan) {
  const bool sharded = s.on("use_distributed_optimizer") || s.on("use_megatron_fsdp") || s.on("use_torch_fsdp2");
  plan.zero = sharded ? 1 : 0;
  if (s.on("overlap_grad_reduce")) {
    plan.grad_sync = GradSync::WithDense;
    if (const auto elements = s.whole_if_given("ddp_bucket_size")) {
      plan.grad_sync = GradSync::FixedChunks;
      plan.gradient_chunk_bytes = static_cast<std::int64_t>(*elements * size_of(gradient_format(s)).value());
    }
  } else if (s.given("ddp_bucket_size")) {
    s.unsaid("ddp_bucket_size", "without --overlap-grad-reduce there is one reduction after the backward pass");
  }
  if (!s.on("overlap_param_gather")) return;
  if (plan.zero == 0 || plan.grad_sync == GradSync::After)
    s.fail("overlap_param_gather", "needs --use-distributed-optimizer and --overlap-grad-reduce");
  plan.parameter_gather = ParameterGather::Ahead;
}

constexpr std::array<std::pair<std::string_view, Recompute>, 7> recomputed_modules{
    {{"core_attn", Recompute::Attention},
     {"mla_up_proj", Recompute::UpProjections},
     {"layernorm", Recompute::Norms},
     {"moe_act", Recompute::Activation},
     {"mlp", Recompute::DenseFfn},
     {"shared_experts", Recompute::SharedExperts},
     {"moe", Recompute::Moe}}};

void recompute_all(const Settings& s, Plan& plan) {
  plan.recompute = {Recompute::Full};
  const std::string method = s.choice("recompute_method", {"uniform", "block"});
  if (method == "block") s.unsaid("recompute_method", "every layer is computed again, each by itself");
  if (s.whole_if_given("recompute_num_layers").value_or(1) != 1)
    s.unsaid("recompute_num_layers", "every layer is computed again, each by itself");
}

bool has_part(Recompute part, const Model& model) {
  if (part == Recompute::UpProjections) return model.attention.kind == AttentionKind::Latent;
  if (part == Recompute::SharedExperts) return model.shared_experts.count > 0;
  if (part == Recompute::Moe) return !model.dense();
  if (part == Recompute::Activation) return !model.dense() && model.expert_kind == ExpertKind::Gated;
  if (part == Recompute::DenseFfn) return model.dense() || model.first_dense > 0 || model.moe_every > 1;
  return true;
}

void read_recompute(const Settings& s, const Model& model, const MegatronGroups& groups, Plan& plan) {
  const bool given = s.given("recompute_granularity");
  const std::string granularity = given ? s.choice("recompute_granularity", {"full", "selective"}) : "";
  if (granularity == "full") return recompute_all(s, plan);
  std::uint32_t parts = 0;
  const auto add = [&](Recompute part) { parts |= EnumSet{part}.bits(); };
  const bool selective = granularity == "selective" || s.on("recompute_activations");
  if (selective && s.given("recompute_method")) s.fail("recompute_method", "given beside selective recomputing");
  if (selective)
    for (const std::string& module : s.words("recompute_modules")) {
      const auto found = std::ranges::find(recomputed_modules, std::string_view(module),
                                           &std::pair<std::string_view, Recompute>::first);
      if (found == recomputed_modules.end())
        s.unsaid("recompute_modules", fmt::format("{} is kept", in_quotes(module)));
      else if (has_part(found->second, model))
        add(found->second);
      else if (found->second == Recompute::Activation && !model.dense())
        s.unsaid("recompute_modules", "experts without a gate keep nothing that moe_act would compute again");
    }
  else if (s.given("recompute_modules"))
    s.unsaid("recompute_modules", "without --recompute-granularity selective nothing is computed again");
  if (s.on("moe_layer_recompute") && !model.dense()) add(Recompute::Moe);
  if (groups.tensor > 1 && groups.sequence_parallel) add(Recompute::MpGather);
  plan.recompute = EnumSet<Recompute>::of_bits(parts);
}

void read_dispatcher(const Settings& s, Plan& plan) {
  const std::string type = s.choice("moe_token_dispatcher_type", {"allgather", "alltoall", "flex"});
  const bool flex = type == "flex" || s.on("moe_enable_deepep");
  if (type == "allgather" && !flex)
    s.unsaid(
        "moe_token_dispatcher_type",
        "allgather is its default; here rows are exchanged all to all, with the work of an all-gather on the host");
  if (!flex) return;
  plan.all_to_all = AllToAll::NodeDeduplicated;
  if (s.choice("moe_flex_dispatcher_backend", {"deepep", "hybridep", "ncclep"}) == "ncclep")
    s.unsaid("moe_flex_dispatcher_backend", "its exchange is priced as that of DeepEP");
  for (const char* name : {"moe_flex_dispatcher_num_sms", "moe_deepep_num_sms", "moe_hybridep_num_sms"})
    if (const auto multiprocessors = s.whole_if_given(name); multiprocessors && plan.comm_sms == 0)
      plan.comm_sms = *multiprocessors;
  if (s.choice("moe_dispatch_fwd_dtype", {"bf16", "mxfp8"}) == "mxfp8") plan.dispatch_wire = Wire::Fp8;
}

void read_experts_of_plan(const Settings& s, const Model& model, Plan& plan) {
  if (model.dense()) return;
  plan.scores_at = ScoresAt::Experts;
  read_dispatcher(s, plan);
  plan.expert_kernel = s.on("moe_grouped_gemm") ? ExpertKernel::Grouped : ExpertKernel::Batched;
  if (s.given("moe_expert_capacity_factor") && !s.on("moe_pad_expert_input_to_capacity"))
    s.unsaid("moe_expert_capacity_factor", "tokens are dropped, but messages have room for the whole capacity");
}

void read_overlap(const Settings& s, const Model& model, Plan& plan) {
  const bool pairs = s.on("overlap_moe_expert_parallel_comm");
  if (model.dense()) {
    if (pairs) s.fail("overlap_moe_expert_parallel_comm", "the model has no experts");
    return;
  }
  if (pairs) plan.scope = Scope::Batch;
  if (s.on("ep_overlap_early_attn_memory_release")) {
    if (!pairs) s.fail("ep_overlap_early_attn_memory_release", "needs --overlap-moe-expert-parallel-comm");
    plan.pair_order = PairOrder::AttentionEarly;
  }
  if (s.on("delay_wgrad_compute")) {
    if (!pairs) s.fail("delay_wgrad_compute", "needs --overlap-moe-expert-parallel-comm");
    plan.delay_weight_gradient = DelayedWeights::All;
  } else if (s.on("overlap_dispatch_backward_with_experts_wgrad")) {
    plan.delay_weight_gradient = DelayedWeights::Expert;
  }
  if (!s.on("moe_shared_expert_overlap") || model.shared_experts.count == 0) return;
  if (pairs)
    s.fail("moe_shared_expert_overlap", "given beside --overlap-moe-expert-parallel-comm; expected one of them");
  plan.shared_experts = SharedExperts::Overlapped;
}

// Attention, or attention and the router, or everything.
void read_graphs(const Settings& s, const Model& model, Plan& plan) {
  const std::string own = s.choice("cuda_graph_impl", {"none", "local", "transformer_engine", "full_iteration"});
  const bool older = s.on("enable_cuda_graph") || s.on("external_cuda_graph");
  if (own == "none" && !older) return;
  std::string_view named = "cuda_graph_modules";
  if (!s.given(named) && s.given("cuda_graph_scope")) named = "cuda_graph_scope";
  const std::vector<std::string> modules = s.words(named);
  const auto has = [&](std::string_view module) { return std::ranges::count(modules, module) > 0; };
  if (own == "full_iteration" || has("full_iteration")) {
    const bool fixed_sizes = model.dense() || s.on("moe_pad_expert_input_to_capacity");
    plan.graphs = fixed_sizes ? Graphs::All : Graphs::Router;
    if (!fixed_sizes)
      s.unsaid("cuda_graph_impl", "with sizes that follow the routing, graphs hold attention and the router alone");
    return;
  }
  const bool layers = has("full") || modules.empty();
  plan.graphs = has("moe_router") && !model.dense() ? Graphs::Router : Graphs::Attention;
  if (layers && !s.given(named))
    s.unsaid(s.given("cuda_graph_impl") ? "cuda_graph_impl" : "enable_cuda_graph",
             "graphs of whole layers; here they hold attention alone");
  for (const std::string& module : modules)
    if (module != "attn" && module != "moe_router" && (module != "full" || s.given(named)))
      s.unsaid(named, fmt::format("graphs hold attention, or attention and the router, not {}", in_quotes(module)));
  if (!layers && !has("attn") && !has("moe_router")) plan.graphs = Graphs::None;
}

}  // namespace

Plan megatron_plan(const MegatronSettings& s, const Model& model, const MegatronGroups& groups, Unsaid& unsaid) {
  Plan plan;
  plan.comm_streams = CommStreams::ByGroup;
  plan.virtual_stages = groups.virtual_stages;
  plan.pipeline_schedule = groups.virtual_stages > 1 ? pipeline_schedule("interleaved") : pipeline_schedule("1f1b");
  read_gradients(s, plan);
  read_recompute(s, model, groups, plan);
  read_experts_of_plan(s, model, plan);
  read_overlap(s, model, plan);
  read_graphs(s, model, plan);
  if (s.given("fp8_format") && s.word("fp8_recipe") != "blockwise")
    unsaid.notes.push_back(fmt::format("fp8 of recipe {}: products here are scaled blockwise", s.word("fp8_recipe")));
  return plan;
}

nlohmann::ordered_json megatron_workload(const MegatronSettings& s, const Model& model) {
  nlohmann::ordered_json json;
  json["extent"] = name_in(extent_names, model.vocabulary > 0 ? Extent::Model : Extent::WholeLayers);
  if (const int sequence = s.whole("seq_length"); sequence > 0) json["sequence"] = sequence;
  const DType format = workload_format(s), gradients = gradient_format(s);
  json["dtype"] = name_in(dtype_names, format);
  if (s.given("fp8_format")) {
    s.choice("fp8_format", {"e4m3", "hybrid"});
    json["products"] = name_in(dtype_names, DType::Fp8);
  }
  json["gradients"] = name_in(dtype_names, gradients);
  json["clip_gradients"] = s.number("clip_grad");
  if (eager_attention(s)) json["attention"] = name_in(attention_kernel_names, AttentionKernel::Eager);
  if (model.mtp_layers > 0 && model.vocabulary > 0) json["mtp_layers"] = model.mtp_layers;
  if (model.mtp_layers > 0 && model.vocabulary == 0)
    s.unsaid("mtp_num_layers", "left out together with the output head, because the vocabulary is not known");
  if (model.dense()) return json;
  const double capacity = s.number("moe_expert_capacity_factor");
  json["capacity_factor"] = capacity;
  json["message_sizes"] = name_in(message_sizes_names, capacity > 0 ? MessageSizes::Padded : MessageSizes::Routed);
  if (s.on("moe_router_force_load_balancing")) json["routing"] = {{"kind", "uniform"}};
  return json;
}

std::map<std::string, bool> megatron_options(const MegatronSettings& s, const Model& model) {
  const bool experts = !model.dense(), fused_loss = s.on("cross_entropy_loss_fusion");
  const bool te_loss = fused_loss && s.word("cross_entropy_fusion_impl") == "te";
  const std::vector<std::string> balancing = s.words("moe_router_load_balancing_type");
  const auto coefficients = s.words("moe_aux_loss_coeff");
  const bool weighs = std::ranges::any_of(
      coefficients, [](const std::string& text) { return text.find_first_of("123456789") < text.find_first_of("eE"); });
  const bool by_loss = std::ranges::any_of(balancing, [](const auto& type) { return type.ends_with("aux_loss"); });
  const bool gated = model.expert_kind == ExpertKind::Gated;
  const std::string dispatcher = s.word("moe_token_dispatcher_type");
  const bool flex = dispatcher == "flex" || s.on("moe_enable_deepep");
  const bool scaled_loss = s.on("fp16");  // whose own check looks for NaN
  return {{"router_fusion", s.on("moe_router_fusion")},
          {"permute_fusion", s.on("moe_permute_fusion")},
          {"cross_entropy_fusion", fused_loss && !te_loss},
          {"cross_entropy_te_fusion", te_loss},
          {"aux_loss", !experts || (by_loss && weighs)},
          {"sinkhorn", experts && std::ranges::count(balancing, "sinkhorn") > 0},
          {"sequential_experts", experts && !s.on("moe_grouped_gemm")},
          {"nan_check", !s.on("no_check_for_nan_in_loss_and_grad") && !scaled_loss},
          {"fp8_copies", !s.on("fp8_param_gather")},
          {"gradient_accumulation_fusion", !s.on("no_gradient_accumulation_fusion")},
          {"dropout", s.number("attention_dropout") > 0 || s.number("hidden_dropout") > 0},
          {"unfused_attention", eager_attention(s)},
          {"deterministic", s.on("deterministic_mode")},
          {"activation_fusion",
           gated ? !s.on("no_bias_swiglu_fusion") : !s.on("no_bias_gelu_fusion") && !s.on("disable_bias_linear")},
          {"allgather_dispatcher", experts && dispatcher == "allgather" && !flex},
          {"hybridep", experts && flex && s.word("moe_flex_dispatcher_backend") == "hybridep"},
          {"experimental", s.on("enable_experimental")},
          {"log_params_norm", s.on("log_params_norm")},
          {"log_num_zeros_in_grad", s.on("log_num_zeros_in_grad")}};
}

}  // namespace dovetail::bench
