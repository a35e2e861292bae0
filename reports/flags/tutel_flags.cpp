// Arguments of tutel.moe.moe_layer, read off its public repository (microsoft/tutel 82af7aa, January 2025, v0.3).
#include <fmt/format.h>

#include "reports/flags/flag_writer.hpp"

namespace dovetail::reports {
namespace {

constexpr const char* versions = "v0.3";

class Tutel {
 public:
  Tutel(const Experiment& e, const Plan& plan) : e_(e), plan_(plan), out_("Tutel", "82af7aa, v0.3") {}

  FrameworkFlags run() {
    outside();
    gate();
    experts();
    overlap();
    FrameworkFlags flags = out_.finish(plan_, own());
    flags.text = text(flags);
    return flags;
  }

 private:
  Plan own() const {
    Plan own;
    own.pad_messages = e_.workload.message_sizes == MessageSizes::Routed || plan_.pad_messages;
    if (plan_.forward_degree > 1) own.scope = Scope::Moe;
    if (plan_.forward_degree == 1 && plan_.scope == Scope::Moe) own.scope = Scope::Moe;
    return own;
  }

  // Tutel is a layer: all else is set where the training is.
  void outside() {
    out_.say(
        {"micro_batches", "pipeline_schedule", "virtual_stages", "zero", "parameter_gather", "recompute", "graphs"});
    const Parallelism& p = e_.parallelism;
    out_.cannot(
        fmt::format("it is the MoE layer alone: pp {}, mp {}, dp {}, {} micro-batches, ZeRO, recomputing and graphs "
                    "are set elsewhere",
                    p.pp, p.mp, p.dp, plan_.micro_batches));
  }

  void gate() {
    const Workload& w = e_.workload;
    out_.flag("gate_type",
              fmt::format("{{'type': 'top', 'k': {}, 'capacity_factor': {:g}}}", w.top_k,
                          w.capacity_factor > 0 ? w.capacity_factor : 0.0),
              versions);
  }

  void experts() {
    out_.say({"expert_sharding", "sharding_repeats"});
    const Parallelism& p = e_.parallelism;
    const int of_device = p.esp > 1 ? -p.esp : e_.model.experts / p.ep;
    out_.flag("experts",
              fmt::format("{{'type': 'ffn', 'num_experts_per_device': {}, 'hidden_size_per_expert': {}}}", of_device,
                          e_.model.expert_hidden),
              versions);
    if (p.esp > 1 && e_.model.experts > p.ep)
      out_.cannot(
          fmt::format("parallelism.esp {} with {} experts on each group: its GPUs share one expert or have whole ones",
                      p.esp, e_.model.experts / p.ep));
    if (p.esp == 1) return;
    if (plan_.expert_sharding == ExpertSharding::Ep)
      out_.cannot("plan.expert_sharding ep: it gathers weights (ep_dp) or repeats tokens (ep_mp), and no rows");
    const int repeats = plan_.sharding_repeats > 0 ? plan_.sharding_repeats : p.esp;
    if (plan_.expert_sharding != ExpertSharding::Ep)
      out_.flag("parallel_type",
                fmt::format("'adaptive:{}'", plan_.expert_sharding == ExpertSharding::EpDp ? 1 : repeats), versions);
  }

  void overlap() {
    out_.say({"forward_degree", "backward_degree", "all_to_all"});
    out_.flag("a2a_ffn_overlap_degree", plan_.forward_degree, versions);
    if (plan_.backward_degree != plan_.forward_degree)
      out_.cannot(fmt::format("plan.backward_degree {}: both passes have {} chunks", plan_.backward_degree,
                              plan_.forward_degree));
    const bool stepped = plan_.all_to_all == AllToAll::TwoDimensional;
    out_.flag("use_2dh", stepped ? "True" : "False", versions);
    if (!stepped && plan_.all_to_all != AllToAll::Linear)
      out_.cannot(fmt::format("plan.all_to_all {}: it has linear and two-dimensional ones",
                              name_in(all_to_all_names, plan_.all_to_all)));
  }

  static std::string text(const FrameworkFlags& flags) {
    std::string text = fmt::format("# {}, checked against {}\ntutel.moe.moe_layer(\n    model_dim=model_dim,\n",
                                   flags.framework, flags.checked);
    for (const Flag& flag : flags.flags)
      text += fmt::format("    {}={},  # {}\n", flag.name, flag.value, flag.versions);
    return text + ")\n";
  }

  const Experiment& e_;
  const Plan& plan_;
  FlagWriter out_;
};

}  // namespace

FrameworkFlags tutel_flags(const Experiment& experiment, const Plan& plan) {
  return Tutel(experiment, plan).run();
}

}  // namespace dovetail::reports
