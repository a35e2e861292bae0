// The configuration file of DeepSpeed and the arguments of its MoE layer. Names and the first version that has each
// were read off its public repository (deepspeedai/DeepSpeed edaa722, August 2026, and its tags to v0.19.5).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "reports/flags/flag_writer.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* from_first = "0.3 and later";

class DeepSpeed {
 public:
  DeepSpeed(const Experiment& e, const Plan& plan) : e_(e), plan_(plan), out_("DeepSpeed", "edaa722, 0.19.5") {}

  FrameworkFlags run() {
    batches();
    gradients();
    memory();
    layer();
    stages();
    Plan own;  // messages have room for the fullest expert where no token is dropped
    own.pad_messages = e_.workload.message_sizes == MessageSizes::Routed || plan_.pad_messages;
    FrameworkFlags flags = out_.finish(plan_, own);
    flags.text = text(flags);
    return flags;
  }

 private:
  void batches() {
    out_.say({"micro_batches"});
    out_.in_file("train_batch_size", std::to_string(e_.workload.batch * e_.parallelism.dp), from_first);
    out_.in_file("train_micro_batch_size_per_gpu", std::to_string(e_.workload.batch / plan_.micro_batches), from_first);
    out_.in_file("gradient_accumulation_steps", std::to_string(plan_.micro_batches), from_first);
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
                              name_in(grad_sync_names, plan_.grad_sync)));
    if (plan_.grad_sync == GradSync::Partitioned)
      out_.cannot("plan.grad_sync partitioned: its buckets have one size, not slices that a planner has chosen");
    if (plan_.parameter_gather == ParameterGather::Ahead)
      out_.cannot("plan.parameter_gather ahead: its ZeRO-1 gathers weights when all are updated");
  }

  void memory() {
    out_.say({"recompute"});
    if (plan_.recompute.has(Recompute::Full))
      out_.in_file("activation_checkpointing.partition_activations", "false",
                   "0.3 and later, with deepspeed.checkpointing around each layer");
    else if (!plan_.recompute.empty())
      out_.cannot("plan.recompute of parts: deepspeed.checkpointing goes around what the model's code puts into it");
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
    if (plan_.encoding == Encoding::Sparse)
      out_.flag("use_tutel", "True",
                "0.5.6 and later, with Tutel installed; from 0.19.4 on not needed for sparse encoding");
    if (p.esp > 1) out_.flag("enable_expert_tensor_parallelism", "True", "0.7 and later");
    if (p.esp > 1 && p.esp != p.mp)
      out_.cannot(
          fmt::format("parallelism.esp {}: its experts are shared by the {} model-parallel ranks", p.esp, p.mp));
    if (p.mp > 1)
      out_.cannot(fmt::format(
          "parallelism.mp {}: the model's code shares its dense part, and hands the groups over as mpu", p.mp));
  }

  void stages() {
    out_.say({"pipeline_schedule", "virtual_stages"});
    if (e_.parallelism.pp == 1) return;
    out_.cannot(
        fmt::format("parallelism.pp {}: PipelineModule(num_stages={}) cuts a model into stages, but its MoE examples "
                    "run without it",
                    e_.parallelism.pp, e_.parallelism.pp));
    if (plan_.pipeline_schedule == PipelineSchedule::Gpipe && plan_.micro_batches > 1)
      out_.cannot("plan.pipeline_schedule gpipe: it runs one forward and one backward pass in turns (1f1b)");
    if (plan_.pipeline_schedule == PipelineSchedule::Interleaved)
      out_.cannot("plan.pipeline_schedule interleaved: its ranks have one stage each");
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
  FlagWriter out_;
};

}  // namespace

FrameworkFlags deepspeed_flags(const Experiment& experiment, const Plan& plan) {
  return DeepSpeed(experiment, plan).run();
}

}  // namespace dovetail::reports
