// Arguments of Megatron-LM's pretraining scripts. Names and the first version that has each were read off its public
// repository (NVIDIA/Megatron-LM d98e8a6, August 2026, and its tags core_r0.8.0 to core_v0.19.0).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/question/stage_layout.hpp"
#include "reports/flags/flag_writer.hpp"

namespace dovetail::reports {
namespace {

constexpr const char* always = "core 0.8 and later";

std::string since(const char* version) {
  return fmt::format("core {} and later", version);
}

// "Et*6|t*6|...|t*5L": the runs of layers as Megatron-LM writes them.
std::string layout_text(const StageLayout& layout, int mtp_layers) {
  std::string text = "E";
  for (int stage = 0; stage < layout.virtual_stages(); ++stage) {
    const bool last = stage + 1 == layout.virtual_stages();
    const LayerRun run = layout.run(stage);
    const int layers = run.last - run.first - (last ? mtp_layers : 0);
    text += fmt::format("{}t*{}", stage == 0 ? "" : "|", layers);
    if (last && mtp_layers > 0) text += fmt::format("m*{}", mtp_layers);
  }
  return text + "L";
}

class Megatron {
 public:
  Megatron(const Experiment& e, const Plan& plan) : e_(e), plan_(plan), out_("Megatron-LM", "d98e8a6, core 0.19") {}

  FrameworkFlags run() {
    groups();
    stages();
    batches();
    numbers();
    gradients();
    recomputing();
    experts();
    graphs();
    FrameworkFlags flags = out_.finish(plan_, own());
    flags.text = text(flags);
    return flags;
  }

 private:
  // Knobs as Megatron-LM has them whatever its arguments say.
  Plan own() const {
    Plan own;
    own.scores_at = ScoresAt::Experts;
    own.comm_streams = CommStreams::ByGroup;
    if (e_.workload.message_sizes == MessageSizes::Padded) own.pad_messages = plan_.pad_messages;
    if (plan_.forward_degree == 1 && plan_.backward_degree == 1 && plan_.scope == Scope::Moe) own.scope = Scope::Moe;
    return own;
  }

  void groups() {
    const Parallelism& p = e_.parallelism;
    out_.flag("--tensor-model-parallel-size", p.mp, always);
    if (p.mp > 1 && !p.repeats_tokens()) out_.flag("--sequence-parallel", "", always);
    if (p.repeats_tokens())
      out_.cannot("parallelism.sequence_parallel false: its experts need --sequence-parallel where tensor-parallel");
    out_.flag("--pipeline-model-parallel-size", p.pp, always);
    if (e_.model.dense()) return;
    out_.flag("--expert-model-parallel-size", p.ep, always);
    out_.flag("--expert-tensor-parallel-size", p.esp, since("0.10"));
  }

  void stages() {
    const Parallelism& p = e_.parallelism;
    out_.say({"pipeline_schedule", "virtual_stages"});
    if (p.pp == 1) return;
    if (plan_.pipeline_schedule == PipelineSchedule::Gpipe && plan_.micro_batches > 1)
      out_.cannot("plan.pipeline_schedule gpipe: it runs one forward and one backward pass in turns (1f1b)");
    const StageLayout layout(e_.workload, p, plan_.virtual_stages);
    const bool equal = p.pipeline_layout.empty() && e_.workload.layers % (p.pp * plan_.virtual_stages) == 0;
    if (!equal) {
      const std::string text =
          p.pipeline_layout.empty() ? layout_text(layout, e_.workload.mtp_layers) : p.pipeline_layout;
      out_.flag("--pipeline-model-parallel-layout", fmt::format("\"{}\"", text), since("0.13"));
    } else if (plan_.virtual_stages > 1) {
      out_.flag("--num-virtual-stages-per-pipeline-rank", plan_.virtual_stages, since("0.11"));
    }
  }

  void batches() {
    out_.say({"micro_batches"});
    out_.flag("--micro-batch-size", e_.workload.batch / plan_.micro_batches, always);
    out_.flag("--global-batch-size", e_.workload.batch * e_.parallelism.dp, always);
    out_.flag("--seq-length", e_.workload.sequence, always);
  }

  void numbers() {
    const Workload& w = e_.workload;
    if (w.dtype == DType::Bf16) out_.flag("--bf16", "", always);
    if (w.dtype == DType::Fp16) out_.flag("--fp16", "", always);
    if (w.products == DType::Fp8) out_.flag("--fp8-format", "e4m3", always);
    if (w.gradients == DType::Fp32 && w.dtype != DType::Fp32)
      out_.flag("--accumulate-allreduce-grads-in-fp32", "", always);
    if (w.gradients.value_or(w.dtype) == DType::Bf16) out_.flag("--grad-reduce-in-bf16", "", since("0.12"));
    out_.flag("--clip-grad", fmt::format("{:g}", w.clip()), always);
  }

  void gradients() {
    out_.say({"zero", "grad_sync", "gradient_chunk_bytes", "gradient_slices", "parameter_gather"});
    const bool early = plan_.grad_sync != GradSync::After, ahead = plan_.parameter_gather == ParameterGather::Ahead;
    if (plan_.zero == 1) out_.flag("--use-distributed-optimizer", "", always);
    if (early) out_.flag("--overlap-grad-reduce", "", always);
    if (plan_.grad_sync == GradSync::FixedChunks)
      out_.flag("--ddp-bucket-size",
                static_cast<int>(std::round(static_cast<double>(plan_.gradient_chunk_bytes) /
                                            size_of(e_.workload.gradients.value_or(e_.workload.dtype)).value())),
                always);
    if (plan_.grad_sync == GradSync::Partitioned)
      out_.cannot("plan.grad_sync partitioned: its buckets have one size, not slices that a planner has chosen");
    if (ahead && early && plan_.zero == 1) out_.flag("--overlap-param-gather", "", always);
    if (ahead && !early)
      out_.cannot("plan.parameter_gather ahead: it needs --overlap-grad-reduce, which this plan is without");
  }

  // Sequence parallelism gathers tokens again without being asked.
  void recomputing() {
    out_.say({"recompute"});
    const EnumSet<Recompute> parts = plan_.recompute;
    if (parts.has(Recompute::Full)) {
      out_.flag("--recompute-granularity", "full", always);
      out_.flag("--recompute-method", "uniform", always);
      out_.flag("--recompute-num-layers", 1, always);
      return;
    }
    constexpr std::array<std::pair<Recompute, const char*>, 7> modules{{{Recompute::Attention, "core_attn"},
                                                                        {Recompute::UpProjections, "mla_up_proj"},
                                                                        {Recompute::Norms, "layernorm"},
                                                                        {Recompute::Activation, "moe_act"},
                                                                        {Recompute::DenseFfn, "mlp"},
                                                                        {Recompute::SharedExperts, "shared_experts"},
                                                                        {Recompute::Moe, "moe"}}};
    std::vector<std::string> chosen;
    for (const auto& [part, module] : modules)
      if (parts.has(part)) chosen.emplace_back(module);
    if (!chosen.empty()) {
      out_.flag("--recompute-granularity", "selective", always);
      out_.flag("--recompute-modules", fmt::format("{}", fmt::join(chosen, " ")), since("0.13"));
    }
    const Parallelism& p = e_.parallelism;
    if (p.mp > 1 && !p.repeats_tokens() && !parts.has(Recompute::MpGather))
      out_.cannot("plan.recompute without mp_gather: its sequence parallelism gathers tokens again in any case");
  }

  void experts() {
    out_.say({"all_to_all", "comm_sms", "expert_kernel"});
    if (e_.model.dense()) return;
    const bool deduplicated = plan_.all_to_all == AllToAll::NodeDeduplicated;
    out_.flag("--moe-token-dispatcher-type", deduplicated ? "flex" : "alltoall", always);
    if (deduplicated)
      out_.flag("--moe-flex-dispatcher-backend", "deepep", "core 0.16 and later; --moe-enable-deepep from 0.12");
    if (deduplicated && plan_.comm_sms > 0) out_.flag("--moe-deepep-num-sms", plan_.comm_sms, "core 0.13 and later");
    if (!deduplicated && plan_.all_to_all != AllToAll::Linear)
      out_.cannot(fmt::format("plan.all_to_all {}: its all-to-alls are those of NCCL",
                              name_in(all_to_all_names, plan_.all_to_all)));
    out_.flag("--moe-grouped-gemm", "", always);
    out_.flag("--moe-permute-fusion", "", since("0.11"));
    if (e_.workload.message_sizes == MessageSizes::Routed || e_.workload.capacity_factor <= 0) return;  // drops nothing
    out_.flag("--moe-expert-capacity-factor", fmt::format("{:g}", e_.workload.capacity_factor), always);
    out_.flag("--moe-pad-expert-input-to-capacity", "", always);
  }

  void graphs() {
    out_.say({"graphs"});
    const char* versions = "core 0.15 to 0.17; --cuda-graph-modules from 0.18";
    if (plan_.graphs == Graphs::None) return;
    if (plan_.graphs == Graphs::All) {
      out_.flag("--cuda-graph-impl", "full_iteration", since("0.18"));
      return;
    }
    out_.flag("--cuda-graph-impl", "transformer_engine", since("0.15"));
    out_.flag("--cuda-graph-scope", plan_.graphs == Graphs::Attention ? "attn" : "attn moe_router", versions);
  }

  // An array of bash, since it may have comments.
  static std::string text(const FrameworkFlags& flags) {
    std::size_t width = 0;
    const auto line = [](const Flag& f) { return f.value.empty() ? f.name : f.name + " " + f.value; };
    for (const Flag& flag : flags.flags) width = std::max(width, line(flag).size());
    std::string text =
        fmt::format("# {}, checked against {}; beside the arguments of the model itself\nMEGATRON_ARGS=(\n",
                    flags.framework, flags.checked);
    for (const Flag& flag : flags.flags) text += fmt::format("  {:<{}}  # {}\n", line(flag), width, flag.versions);
    return text + ")\n";
  }

  const Experiment& e_;
  const Plan& plan_;
  FlagWriter out_;
};

}  // namespace

FrameworkFlags megatron_flags(const Experiment& experiment, const Plan& plan) {
  return Megatron(experiment, plan).run();
}

}  // namespace dovetail::reports
