// SPDX-License-Identifier: Apache-2.0
// Arguments of tutel.moe.moe_layer, read off its public repository (microsoft/tutel 82af7aa, January 2025, v0.3).
#include <fmt/format.h>

#include <algorithm>

#include "reports/flags/flag_writer.hpp"

namespace dovetail::reports {
namespace {

constexpr const char* versions = "v0.3";

class Tutel {
 public:
  Tutel(const Experiment& e, const Plan& plan) : e_(e), plan_(plan), out_("Tutel", "82af7aa, v0.3", e, plan) {}

  FrameworkFlags run() {
    if (e_.model.dense()) out_.cannot(fmt::format("model {}: Tutel is an MoE layer, and it has none", e_.model.name));
    outside();
    gate();
    experts();
    overlap();
    FrameworkFlags flags = out_.finish(own());
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
    out_.say({"micro_batches", "pipeline_schedule", "program", "virtual_stages", "zero", "parameter_gather",
              "grad_sync", "gradient_chunk_bytes", "gradient_slices", "recompute", "graphs"});
    const Parallelism& p = e_.parallelism;
    out_.elsewhere(
        fmt::format("Tutel is the MoE layer alone: pp {}, mp {}, dp {}, {} micro-batches, ZeRO, sums of gradients, "
                    "recomputing and graphs are of the training around it",
                    p.pp, p.mp, p.dp, plan_.micro_batches));
  }

  void gate() {
    const Workload& w = e_.workload;
    out_.flag("gate_type",
              fmt::format("{{'type': 'top', 'k': {}, 'capacity_factor': {:g}}}", w.top_k,
                          w.capacity_factor > 0 ? w.capacity_factor : 0.0),
              versions);
  }

  // Each GPU of the group has whole experts, or several share one.
  struct Placement {
    int of_device = 1;  // below zero: so many GPUs share an expert
    Parallelism groups;
    int shards() const { return groups.esp; }
  };
  Placement placement() const {
    const Parallelism& p = e_.parallelism;
    const int experts = e_.model.experts, ranks = p.ep * p.esp;
    Placement place{experts / p.ep, p};
    if (experts % ranks == 0) {
      place.of_device = experts / ranks;
      place.groups.ep = ranks;
      place.groups.esp = 1;
    } else if (ranks % experts == 0) {
      place.of_device = -ranks / experts;
      place.groups.ep = experts;
      place.groups.esp = ranks / experts;
    } else {
      place.groups.esp = 0;
    }
    return place;
  }

  void experts() {
    out_.say({"expert_sharding", "sharding_repeats"});
    const Parallelism& p = e_.parallelism;
    const int ranks = p.ep * p.esp;
    const bool gated = e_.model.expert_kind == ExpertKind::Gated;
    const Placement place = placement();
    out_.flag("experts",
              fmt::format("{{'type': '{}', 'num_experts_per_device': {}, 'hidden_size_per_expert': {}}}",
                          gated ? "llama_ffn" : "ffn", place.of_device, e_.model.expert_hidden),
              versions);
    const bool world = ranks == p.pp * p.dp * p.mp;
    if (!world) out_.flag("group", "expert_group", versions);
    if (place.shards() == 0)
      out_.cannot(fmt::format("{} experts on {} GPUs: each has as many whole ones, or as many GPUs share each",
                              e_.model.experts, ranks));
    else if (place.shards() != p.esp)
      out_.cannot(fmt::format("parallelism.esp {} with {} experts on each group: {}", p.esp, e_.model.experts / p.ep,
                              place.shards() == 1 ? "its GPUs have whole ones"
                                                  : fmt::format("{} GPUs share one", place.shards())),
                  [&](TakenPlan& taken) { taken.groups = place.groups; });
    if (place.shards() > 1) sharding(place.shards(), gated, world);
    if (place.shards() == 1)
      out_.takes([](TakenPlan& taken) {
        taken.plan.expert_sharding = ExpertSharding::Ep;
        taken.plan.sharding_repeats = 0;
      });
  }

  // Its gated experts gather their weights whatever parallel_type says.
  void sharding(int shards, bool gated, bool world) {
    if (!world)
      out_.cannot(
          fmt::format("parallelism.esp {}: it shares an expert within all GPUs, not within a group of them", shards));
    const bool repeats = plan_.expert_sharding == ExpertSharding::EpMp && !gated;
    const int copies = !repeats ? 1 : plan_.sharding_repeats > 0 ? plan_.sharding_repeats : shards;
    if (plan_.expert_sharding == ExpertSharding::Ep || (plan_.expert_sharding == ExpertSharding::EpMp && gated))
      out_.cannot(fmt::format("plan.expert_sharding {}: {}", name_in(expert_sharding_names, plan_.expert_sharding),
                              gated ? "its llama_ffn gathers weights (ep_dp)"
                                    : "it gathers weights (ep_dp) or repeats tokens (ep_mp), and no rows"),
                  [](TakenPlan& taken) {
                    taken.plan.expert_sharding = ExpertSharding::EpDp;
                    taken.plan.sharding_repeats = 0;
                  });
    out_.flag("parallel_type", fmt::format("'adaptive:{}'", copies), versions);
  }

  void overlap() {
    out_.say({"forward_degree", "backward_degree", "all_to_all"});
    out_.flag("a2a_ffn_overlap_degree", plan_.forward_degree, versions);
    if (plan_.backward_degree != plan_.forward_degree)
      out_.cannot(fmt::format("plan.backward_degree {}: both passes have {} chunks", plan_.backward_degree,
                              plan_.forward_degree),
                  [this](TakenPlan& taken) { taken.plan.backward_degree = plan_.forward_degree; });
    const bool stepped = plan_.all_to_all == AllToAll::TwoDimensional;
    out_.flag("use_2dh", stepped ? "True" : "False", versions);
    if (!stepped && plan_.all_to_all != AllToAll::Linear)
      out_.cannot(fmt::format("plan.all_to_all {}: it has linear and two-dimensional ones",
                              name_in(all_to_all_names, plan_.all_to_all)),
                  [](TakenPlan& taken) { taken.plan.all_to_all = AllToAll::Linear; });
  }

  std::string text(const FrameworkFlags& flags) const {
    const Parallelism& p = e_.parallelism;
    const bool grouped = std::ranges::count(flags.flags, "group", &Flag::name) > 0;
    std::string text = fmt::format("# {}, checked against {}\n", flags.framework, flags.checked);
    if (grouped)
      text += fmt::format("# expert_group: the process group of the {} GPUs whose experts a rank uses\n", p.ep * p.esp);
    text += "tutel.moe.moe_layer(\n    model_dim=model_dim,\n";
    for (const Flag& flag : flags.flags) text += fmt::format("    {}={},\n", flag.name, flag.value);
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
