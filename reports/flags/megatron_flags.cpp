// SPDX-License-Identifier: Apache-2.0
// Arguments of Megatron-LM's pretraining scripts. Names and the first version that has each were read off its public
// repository (NVIDIA/Megatron-LM d98e8a6, which calls itself core 0.20.0, August 2026, and its tags core_r0.8.0 to
// core_v0.19.0). Its parser's arguments are in tests/data/frameworks, and a test holds these against them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/plan/knob_table.hpp"
#include "models/plan/program.hpp"
#include "models/plan/system_rules.hpp"
#include "models/question/stage_layout.hpp"
#include "reports/flags/flag_writer.hpp"
#include "reports/flags/megatron_model.hpp"

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

void set_part(EnumSet<Recompute>& parts, Recompute part, bool recomputed) {
  const std::uint32_t bit = EnumSet{part}.bits();
  parts = EnumSet<Recompute>::of_bits(recomputed ? parts.bits() | bit : parts.bits() & ~bit);
}

class Megatron {
 public:
  Megatron(const Experiment& e, const Plan& plan)
      : e_(e), plan_(plan), out_("Megatron-LM", "d98e8a6, core 0.20.0", e, plan) {}

  FrameworkFlags run() {
    groups();
    stages();
    batches();
    numbers();
    gradients();
    recomputing();
    experts();
    overlaps();
    graphs();
    FrameworkFlags flags = out_.finish(own());
    flags.text = text(flags, megatron_model_text(e_));
    return flags;
  }

 private:
  // Knobs as Megatron-LM has them whatever its arguments say.
  Plan own() const {
    Plan own;
    own.scores_at = e_.model.dense() ? plan_.scores_at : ScoresAt::Experts;
    own.comm_streams = CommStreams::ByGroup;
    if (e_.workload.message_sizes == MessageSizes::Padded) own.pad_messages = plan_.pad_messages;
    if (plan_.forward_degree == 1 && plan_.backward_degree == 1 && plan_.scope == Scope::Moe) own.scope = Scope::Moe;
    return own;
  }

  void groups() {
    const Parallelism& p = e_.parallelism;
    out_.flag("--tensor-model-parallel-size", p.mp, always);
    if (p.mp > 1) out_.flag("--sequence-parallel", "", always);
    if (p.repeats_tokens())
      out_.cannot("parallelism.sequence_parallel false: its experts need --sequence-parallel where tensor-parallel",
                  [](TakenPlan& taken) { taken.groups.sequence_parallel = true; });
    out_.flag("--pipeline-model-parallel-size", p.pp, always);
    if (e_.model.dense()) return;
    out_.flag("--expert-model-parallel-size", p.ep, always);
    out_.flag("--expert-tensor-parallel-size", p.esp, since("0.10"));
  }

  // Whether the plan's ranks do what they do with the other's schedule.
  bool does_the_same(const Plan& other) const {
    const auto ranks = [&](const Plan& plan) { return program_of(plan, e_.parallelism.pp).ranks; };
    return other.virtual_stages == plan_.virtual_stages && ranks(other) == ranks(plan_);
  }

  void stages() {
    const Parallelism& p = e_.parallelism;
    out_.say({"pipeline_schedule", "program", "virtual_stages"});
    if (e_.workload.mtp_layers > 0) out_.flag("--mtp-num-layers", e_.workload.mtp_layers, since("0.12"));
    const NamedProgram& program = plan_.pipeline();
    Plan own = plan_;  // the nearest that it can run
    if (program.last_first || program.halves || plan_.lists_program()) {
      const bool laps = plan_.virtual_stages > 1 && plan_.micro_batches % p.pp == 0;
      own.follow(laps ? pipeline_schedule("interleaved") : pipeline_schedule("1f1b"));
      if (!laps) own.virtual_stages = 1;
      const bool same = plan_.lists_program() ? does_the_same(own) : !program.halves && plan_.micro_batches == 1;
      if (!same)
        out_.cannot(fmt::format("plan.pipeline_schedule {}: it runs one forward and one backward pass in turns ({})",
                                program.name, own.pipeline().name),
                    [own](TakenPlan& taken) {
                      if (own.virtual_stages != taken.plan.virtual_stages) taken.groups.pipeline_layout.clear();
                      copy_knobs(KnobClass::Pipeline, own, taken.plan);
                    });
    }
    virtual_stages_ = own.virtual_stages;
    if (p.pp == 1) return;
    Experiment laid_out = e_;
    if (own.virtual_stages != plan_.virtual_stages) laid_out.parallelism.pipeline_layout.clear();
    const StageLayout layout = stage_layout(own, laid_out);
    const std::string& written = laid_out.parallelism.pipeline_layout;
    const bool equal = written.empty() && e_.workload.layers % (p.pp * own.virtual_stages) == 0;
    if (!equal) {
      const std::string text = written.empty() ? layout_text(layout, e_.workload.mtp_layers) : written;
      out_.flag("--pipeline-model-parallel-layout", fmt::format("\"{}\"", text), since("0.13"));
    } else if (own.virtual_stages > 1) {
      out_.flag("--num-virtual-stages-per-pipeline-rank", own.virtual_stages, since("0.11"));
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
    if (w.products == DType::Fp8) {
      out_.flag("--fp8-format", "e4m3", always);
      out_.flag("--fp8-recipe", "blockwise", since("0.13"));
    }
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
      out_.cannot("plan.grad_sync partitioned: its buckets have one size, not slices that a planner has chosen",
                  [](TakenPlan& taken) {
                    taken.plan.grad_sync = GradSync::WithDense;
                    taken.plan.gradient_slices.clear();
                  });
    if (ahead && early && plan_.zero == 1) out_.flag("--overlap-param-gather", "", always);
    if (ahead && !early)
      out_.cannot("plan.parameter_gather ahead: it needs --overlap-grad-reduce, which this plan is without",
                  [](TakenPlan& taken) { taken.plan.parameter_gather = ParameterGather::AfterUpdate; });
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
      if (parts.has(part) && !(part == Recompute::Activation && e_.model.dense())) chosen.emplace_back(module);
    if (!chosen.empty()) {
      out_.flag("--recompute-granularity", "selective", always);
      out_.flag("--recompute-modules", fmt::format("{}", fmt::join(chosen, " ")), since("0.13"));
    }
    if (parts.has(Recompute::Activation) && e_.model.dense())
      out_.cannot("plan.recompute activation: its moe_act is of experts, and mlp computes the whole dense part again",
                  [](TakenPlan& taken) { set_part(taken.plan.recompute, Recompute::Activation, false); });
    const Parallelism& p = e_.parallelism;
    if (p.mp > 1 && !parts.has(Recompute::MpGather))
      out_.cannot("plan.recompute without mp_gather: its sequence parallelism gathers tokens again in any case",
                  [](TakenPlan& taken) { set_part(taken.plan.recompute, Recompute::MpGather, true); });
  }

  void experts() {
    out_.say({"all_to_all", "comm_sms", "expert_kernel"});
    if (e_.model.dense()) return;
    const bool deduplicated = plan_.all_to_all == AllToAll::NodeDeduplicated;
    out_.flag("--moe-token-dispatcher-type", deduplicated ? "flex" : "alltoall", always);
    if (deduplicated)
      out_.flag("--moe-flex-dispatcher-backend", "deepep", "core 0.16 and later; --moe-enable-deepep from 0.12");
    if (deduplicated && plan_.comm_sms > 0)
      out_.flag("--moe-deepep-num-sms", plan_.comm_sms, "core 0.13 and later; --moe-flex-dispatcher-num-sms from 0.19");
    if (!deduplicated && plan_.all_to_all != AllToAll::Linear)
      out_.cannot(fmt::format("plan.all_to_all {}: its all-to-alls are those of NCCL",
                              name_in(all_to_all_names, plan_.all_to_all)),
                  [](TakenPlan& taken) { taken.plan.all_to_all = AllToAll::Linear; });
    products();
    if (e_.workload.capacity_factor <= 0 && e_.workload.message_sizes == MessageSizes::Padded)
      out_.cannot("workload.message_sizes padded: without a capacity factor its messages are as long as what is routed",
                  [](TakenPlan& taken) {
                    taken.messages = MessageSizes::Routed;
                    taken.plan.pad_messages = false;
                  });
    if (e_.workload.message_sizes == MessageSizes::Routed || e_.workload.capacity_factor <= 0) return;  // drops nothing
    out_.flag("--moe-expert-capacity-factor", fmt::format("{:g}", e_.workload.capacity_factor), always);
    out_.flag("--moe-pad-expert-input-to-capacity", "", always);
  }

  // With as many virtual stages as it runs.
  std::string no_pairs_because() const {
    Plan plan = plan_;
    plan.virtual_stages = virtual_stages_;
    return no_megatron_pairs_because(plan, e_);
  }

  void overlaps() {
    out_.say({"pair_order", "delay_weight_gradient", "shared_experts"});
    const bool asked = plan_.scope == Scope::Batch;
    if (asked) out_.say({"scope"});
    const std::string why_not = asked ? no_pairs_because() : "";
    const bool pairs = asked && why_not.empty();
    if (asked && !pairs)
      out_.cannot(fmt::format("plan.scope batch: {}, and so runs layer after layer", why_not), [](TakenPlan& taken) {
        taken.plan.scope = Scope::Layer;
        taken.plan.pair_order = PairOrder::Alternate;
      });
    if (pairs) out_.flag("--overlap-moe-expert-parallel-comm", "", since("0.14"));
    if (pairs && plan_.pair_order == PairOrder::AttentionEarly)
      out_.flag("--ep-overlap-early-attn-memory-release", "", since("0.16"));
    if (pairs && plan_.pair_order == PairOrder::ExpertsFirst)
      out_.cannot("plan.pair_order experts_first: it runs forward attention before backward experts (alternate)",
                  [](TakenPlan& taken) { taken.plan.pair_order = PairOrder::Alternate; });
    delayed_weights(pairs);
    if (plan_.shared_experts == SharedExperts::Serial) return;
    if (pairs)
      out_.cannot("plan.shared_experts overlapped with scope batch: it has one or the other",
                  [](TakenPlan& taken) { taken.plan.shared_experts = SharedExperts::Serial; });
    else
      out_.flag("--moe-shared-expert-overlap", "", since("0.10"));
  }

  void delayed_weights(bool pairs) {
    if (plan_.delay_weight_gradient == DelayedWeights::None) return;
    const DelayedWeights own = pairs ? DelayedWeights::All : DelayedWeights::Expert;
    if (plan_.delay_weight_gradient != own)
      out_.cannot(fmt::format("plan.delay_weight_gradient {}: {} micro-batches that overlap it delays those of {}",
                              name_in(delayed_weights_names, plan_.delay_weight_gradient), pairs ? "with" : "without",
                              pairs ? "all" : "experts alone"),
                  [own](TakenPlan& taken) { taken.plan.delay_weight_gradient = own; });
    if (pairs)
      out_.flag("--delay-wgrad-compute", "", since("0.14"));
    else
      out_.flag("--overlap-dispatch-backward-with-experts-wgrad", "", since("0.18"));
  }

  // Padded rows are equally many for each expert, so that a grouped product is a batched one.
  void products() {
    out_.flag("--moe-grouped-gemm", "", always);
    out_.flag("--moe-permute-fusion", "", since("0.11"));
    if (e_.workload.message_sizes == MessageSizes::Routed && plan_.expert_kernel == ExpertKernel::Batched)
      out_.cannot("plan.expert_kernel batched: its grouped products take the rows that are used alone",
                  [](TakenPlan& taken) { taken.plan.expert_kernel = ExpertKernel::Grouped; });
  }

  // The whole step may be captured with every recomputing; modules alone not with that of the whole layer, nor the
  // router with that of the MoE part.
  Graphs captured() const {
    const bool router = plan_.graphs == Graphs::Router && !e_.model.dense() && !plan_.recompute.has(Recompute::Moe);
    if (plan_.graphs == Graphs::None || plan_.graphs == Graphs::All) return plan_.graphs;
    return plan_.recompute.has(Recompute::Full) ? Graphs::None : router ? Graphs::Router : Graphs::Attention;
  }

  void graphs() {
    out_.say({"graphs"});
    const Graphs captured = this->captured();
    if (captured != plan_.graphs) {
      const auto does = [captured](TakenPlan& taken) { taken.plan.graphs = captured; };
      if (captured == Graphs::Attention && e_.model.dense())
        out_.takes(does);
      else
        out_.cannot(fmt::format("plan.graphs {} with this recompute: it captures no part that is computed again",
                                name_in(graphs_names, plan_.graphs)),
                    does);
    }
    if (captured == Graphs::None) return;
    if (captured == Graphs::All) {
      out_.flag("--cuda-graph-impl", "full_iteration", since("0.18"));
      out_.flag("--no-check-for-nan-in-loss-and-grad", "", always);
      return;
    }
    out_.flag("--cuda-graph-impl", "transformer_engine", since("0.15"));
    out_.flag("--cuda-graph-modules", captured == Graphs::Attention ? "attn" : "attn moe_router",
              "core 0.18 and later; --cuda-graph-scope from 0.15 to 0.17");
  }

  // Arrays of bash, since they may have comments: the arguments of each version below a line that names it.
  static std::string text(const FrameworkFlags& flags, const std::string& model) {
    std::vector<std::string> versions;
    for (const Flag& flag : flags.flags)
      if (std::ranges::count(versions, flag.versions) == 0) versions.push_back(flag.versions);
    std::string text =
        fmt::format("# {}, checked against {}\n{}# the plan\nMEGATRON_ARGS=(\n", flags.framework, flags.checked, model);
    for (const std::string& version : versions) {
      text += fmt::format("  # {}\n", version);
      for (const Flag& flag : flags.flags)
        if (flag.versions == version)
          text += fmt::format("  {}{}{}\n", flag.name, flag.value.empty() ? "" : " ", flag.value);
    }
    return text + ")\n";
  }

  const Experiment& e_;
  const Plan& plan_;
  int virtual_stages_ = 1;  // as it runs them
  FlagWriter out_;
};

}  // namespace

FrameworkFlags megatron_flags(const Experiment& experiment, const Plan& plan) {
  return Megatron(experiment, plan).run();
}

}  // namespace dovetail::reports
