// SPDX-License-Identifier: Apache-2.0
// The configuration file of DeepSpeed and the arguments of its MoE layer. Names and the first version that has each
// were read off its public repository (deepspeedai/DeepSpeed edaa722, which calls itself 0.19.6, August 2026, and its
// tags to v0.19.5).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "reports/flags/flag_writer.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* from_first = "0.3 and later";

class DeepSpeed {
 public:
  DeepSpeed(const Experiment& e, const Plan& plan)
      : e_(e),
        plan_(plan),
        ranks_(e.parallelism.dp * e.parallelism.pp),
        out_("DeepSpeed", "edaa722, 0.19.6", e, plan) {}

  FrameworkFlags run() {
    stages();
    batches();
    gradients();
    memory();
    layer();
    Plan own;  // messages have room for the fullest expert where no token is dropped
    own.pad_messages = e_.workload.message_sizes == MessageSizes::Routed || plan_.pad_messages;
    FrameworkFlags flags = out_.finish(own);
    flags.text = text(flags);
    return flags;
  }

 private:
  // Its MoE examples run without stages: their ranks are data-parallel ones too, with an equal share of the samples.
  void stages() {
    out_.say({"pipeline_schedule", "program", "virtual_stages"});
    const int stages = e_.parallelism.pp;
    const NamedProgram& program = plan_.pipeline();
    if (stages == 1 && (program.last_first || plan_.lists_program()) && plan_.micro_batches > 1)
      out_.cannot(fmt::format("plan.pipeline_schedule {}: the backward pass of each micro-batch follows its forward "
                              "pass (1f1b)",
                              program.name),
                  [](TakenPlan& taken) { taken.plan.follow(pipeline_schedule("1f1b")); });
    if (stages == 1) return;
    out_.cannot(fmt::format("parallelism.pp {}: PipelineModule cuts a model into stages, but its MoE examples run "
                            "without it; here the ranks of all stages are data parallel",
                            stages),
                [this, stages](TakenPlan& taken) {
                  taken.groups.pp = 1;
                  taken.groups.dp = ranks_;
                  taken.groups.edp *= stages;
                  taken.groups.pipeline_layout.clear();
                  taken.plan.follow(pipeline_schedule("1f1b"));
                  taken.plan.virtual_stages = 1;
                });
  }

  // Micro-batches are no larger than the plan's. Each rank has the next whole number of samples where they do not
  // divide over the ranks.
  void batches() {
    out_.say({"micro_batches"});
    const int samples = e_.workload.batch * e_.parallelism.dp, of_rank = (samples + ranks_ - 1) / ranks_;
    const int micro_batch = std::gcd(of_rank, e_.workload.batch / plan_.micro_batches);
    const int steps = of_rank / micro_batch;
    const auto does = [&](TakenPlan& taken) {
      taken.batch = of_rank;
      taken.plan.micro_batches = steps;
    };
    if (of_rank * ranks_ == samples)
      out_.takes(does);
    else
      out_.cannot(fmt::format("workload.batch: {} samples do not divide over its {} data-parallel ranks; these are {}",
                              samples, ranks_, of_rank * ranks_),
                  does);
    out_.in_file("train_batch_size", std::to_string(of_rank * ranks_), from_first);
    out_.in_file("train_micro_batch_size_per_gpu", std::to_string(micro_batch), from_first);
    out_.in_file("gradient_accumulation_steps", std::to_string(steps), from_first);
    if (e_.workload.dtype == DType::Bf16) out_.in_file("bf16.enabled", "true", "0.6 and later");
    if (e_.workload.dtype == DType::Fp16) out_.in_file("fp16.enabled", "true", from_first);
    if (e_.workload.products == DType::Fp8) out_.cannot("workload.products fp8: its products are those of the model");
    out_.in_file("gradient_clipping", fmt::format("{:g}", e_.workload.clip()), from_first);
  }

  void gradients() {
    out_.say({"zero", "grad_sync", "gradient_chunk_bytes", "gradient_slices", "parameter_gather"});
    out_.in_file("zero_optimization.stage", std::to_string(plan_.zero), from_first);
    const bool early = plan_.grad_sync != GradSync::After;
    if (plan_.zero > 0) out_.in_file("zero_optimization.overlap_comm", early ? "true" : "false", from_first);
    if (plan_.zero > 0 && plan_.grad_sync == GradSync::FixedChunks)
      out_.in_file("zero_optimization.reduce_bucket_size",
                   fmt::format("{:.0f}", static_cast<double>(plan_.gradient_chunk_bytes) /
                                             size_of(e_.workload.gradients.value_or(e_.workload.dtype)).value()),
                   from_first);
    if (early && plan_.zero == 0)
      out_.cannot(fmt::format("plan.grad_sync {}: without ZeRO it reduces gradients after the backward pass",
                              name_in(grad_sync_names, plan_.grad_sync)),
                  reduces(GradSync::After));
    else if (plan_.grad_sync == GradSync::Partitioned)
      out_.cannot("plan.grad_sync partitioned: its buckets have one size, not slices that a planner has chosen",
                  reduces(GradSync::WithDense));
    if (plan_.parameter_gather == ParameterGather::Ahead)
      out_.cannot("plan.parameter_gather ahead: its ZeRO-1 gathers weights when all are updated",
                  [](TakenPlan& taken) { taken.plan.parameter_gather = ParameterGather::AfterUpdate; });
  }

  static FlagWriter::Change reduces(GradSync sync) {
    return [sync](TakenPlan& taken) {
      taken.plan.grad_sync = sync;
      taken.plan.gradient_slices.clear();
    };
  }

  void memory() {
    out_.say({"recompute"});
    if (plan_.recompute.has(Recompute::Full))
      out_.in_file("activation_checkpointing.partition_activations", "false",
                   "0.3 and later, with deepspeed.checkpointing around each layer");
    else if (!plan_.recompute.empty())
      out_.cannot("plan.recompute of parts: deepspeed.checkpointing goes around what the model's code puts into it",
                  [](TakenPlan& taken) { taken.plan.recompute = {}; });
  }

  void layer() {
    if (e_.model.dense()) return;
    const Parallelism& p = e_.parallelism;
    const Workload& w = e_.workload;
    out_.flag("num_experts", e_.model.experts, "0.5 and later");
    out_.flag("ep_size", p.ep, "0.6 and later");
    out_.flag("k", w.top_k, w.top_k > 2 ? "above 2: 0.15 and later" : "0.5 and later");
    const bool drops = w.capacity_factor > 0;
    if (drops) out_.flag("capacity_factor", fmt::format("{:g}", w.capacity_factor), "0.5 and later");
    out_.flag("drop_tokens", drops ? "True" : "False", "0.5.5 and later");
    out_.say({"encoding"});
    out_.flag("use_tutel", "True", "0.5.6 and later, with Tutel installed; from 0.19.4 on not needed");
    if (plan_.encoding == Encoding::Dense)
      out_.cannot("plan.encoding dense: from 0.19.4 on it is sparse, as with use_tutel before",
                  [](TakenPlan& taken) { taken.plan.encoding = Encoding::Sparse; });
    if (p.esp > 1) out_.flag("enable_expert_tensor_parallelism", "True", "0.7 and later");
    if (p.esp > 1 && p.esp != p.mp)
      out_.cannot(
          fmt::format("parallelism.esp {}: its experts are shared by the {} model-parallel ranks", p.esp, p.mp));
    if (p.mp > 1)
      out_.elsewhere(fmt::format(
          "parallelism.mp {}: the model's code shares its dense part, and hands the groups over as mpu", p.mp));
  }

  // The file as JSON, then the call, with versions as comments.
  static std::string text(const FrameworkFlags& flags) {
    Json file;
    std::string versions, call;
    for (const Flag& flag : flags.flags) {
      if (!flag.in_file) {
        call += fmt::format("    {}={},  # {}\n", flag.name, flag.value, flag.versions);
        continue;
      }
      std::string pointer = "/" + flag.name;
      if (const std::size_t dot = pointer.find('.'); dot != std::string::npos) pointer[dot] = '/';
      file[Json::json_pointer(pointer)] = Json::parse(flag.value);
      if (flag.versions != from_first) versions += fmt::format("# {}: {}\n", flag.name, flag.versions);
    }
    return fmt::format("# {}, checked against {}; ds_config.json, {}:\n{}\n{}", flags.framework, flags.checked,
                       from_first, file.dump(2), versions) +
           (call.empty() ? ""
                         : "# each MoE layer:\ndeepspeed.moe.layer.MoE(\n    hidden_size, expert,\n" + call + ")\n");
  }

  const Experiment& e_;
  const Plan& plan_;
  const int ranks_;  // data-parallel ones of the exported run, which has no stages
  FlagWriter out_;
};

}  // namespace

FrameworkFlags deepspeed_flags(const Experiment& experiment, const Plan& plan) {
  return DeepSpeed(experiment, plan).run();
}

}  // namespace dovetail::reports
