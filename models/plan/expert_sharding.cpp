// SPDX-License-Identifier: Apache-2.0
#include "models/plan/expert_sharding.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/plan/refuse.hpp"

namespace dovetail {
namespace {

// The most experts that shadowing leaves to any one owner.
std::int64_t most_dispatched(const Plan& plan, std::int64_t experts, std::int64_t local) {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first < experts; first += local)
    most = std::max(most, local - std::ranges::count_if(plan.shadowed_experts,
                                                        [&](int e) { return first <= e && e < first + local; }));
  return most;
}

}  // namespace

int sharding_repeats(const Plan& plan, const Parallelism& parallelism) {
  if (plan.expert_sharding != ExpertSharding::EpMp) return 1;
  return plan.sharding_repeats == 0 ? parallelism.esp : plan.sharding_repeats;
}

Parallelism exchange_groups(const Plan& plan, const Parallelism& parallelism) {
  const int repeats = sharding_repeats(plan, parallelism);
  Parallelism groups = parallelism;
  groups.ep *= repeats;
  groups.esp /= repeats;
  return groups;
}

LayerVolumes layer_volumes(const Experiment& experiment, const Plan& plan, int layer) {
  LayerVolumes v = layer_volumes(experiment, layer);
  if (plan.expert_sharding != ExpertSharding::Ep) {
    const Parallelism groups = exchange_groups(plan, experiment.parallelism);
    v.peers = groups.ep;
    v.repeats = groups.ep / experiment.parallelism.ep;
    v.esp = 1;
    v.weight_shards = groups.esp;
  }
  v.shadowed_experts = static_cast<std::int64_t>(plan.shadowed_experts.size());
  if (v.shadowed_experts > 0) v.dispatched_experts = most_dispatched(plan, v.experts, v.local_experts);
  return v;
}

LayerVolumes layer_volumes(const Experiment& experiment, const Plan& plan) {
  return layer_volumes(experiment, plan, experiment.model.first_moe());
}

void require_sharding(const Plan& plan, const Experiment& e) {
  const int repeats = plan.sharding_repeats, esp = e.parallelism.esp;
  if (repeats != 0 && plan.expert_sharding != ExpertSharding::EpMp)
    refuse("sharding_repeats", "given, but plan.expert_sharding is not ep_mp");
  if (repeats < 0 || (repeats > 0 && esp % repeats != 0))
    refuse("sharding_repeats", fmt::format("{}, expected a divisor of esp {}, or 0 for all shards", repeats, esp));
  if (e.parallelism.repeats_tokens() && plan.expert_sharding != ExpertSharding::Ep)
    refuse("expert_sharding", fmt::format("{} is not built yet without parallelism.sequence_parallel; built: ep",
                                          name_in(expert_sharding_names, plan.expert_sharding)));
  if (plan.row_tile < 0) refuse("row_tile", fmt::format("{}, expected at least 0", plan.row_tile));
}

void require_shadowed(const Plan& plan, const Experiment& e) {
  if (plan.shadowed_experts.empty()) return;
  const auto fail = [](const std::string& why) { refuse("shadowed_experts", why); };
  int before = -1;
  for (int expert : plan.shadowed_experts) {
    if (expert < 0 || expert >= e.model.experts)
      fail(fmt::format("expert {}, expected 0 to {}", expert, e.model.experts - 1));
    if (expert <= before) fail(fmt::format("{} after {}, expected ascending numbers", expert, before));
    before = expert;
  }
  if (e.parallelism.ep == 1) fail("ep is 1: every rank has all experts without shadowing");
  if (static_cast<int>(plan.shadowed_experts.size()) == e.model.experts)
    fail(fmt::format("all {} experts, expected to leave one to its owner", e.model.experts));
  if (e.parallelism.esp > 1)
    fail(fmt::format("esp is {}, expected 1: local rows would need every shard of a shadowed expert",
                     e.parallelism.esp));
}

void require_peers(const Plan& plan, const Experiment& e) {
  if (plan.peer_group < 1) refuse("peer_group", fmt::format("{}, expected at least 1", plan.peer_group));
  if (plan.split != Split::Peers) return;
  const auto require_one = [](std::string_view knob, int degree) {
    if (degree != 1)
      refuse(knob, fmt::format("{} contradicts plan.split peers, whose chunks are peer groups; expected 1", degree));
  };
  require_one("forward_degree", plan.forward_degree);
  require_one("backward_degree", plan.backward_degree);
  for (int degree : plan.backward_degrees) require_one("backward_degrees", degree);
  const int peers = exchange_groups(plan, e.parallelism).ep;
  if ((plan.scope == Scope::Layer || plan.scope == Scope::Batch) && peers > plan.peer_group)
    refuse("split", fmt::format("peers: {} ranks in groups of {} contradict plan.scope {}, which overlaps no chunks",
                                peers, plan.peer_group, name_in(scope_names, plan.scope)));
  if (plan.all_to_all != AllToAll::Linear)
    refuse("all_to_all", fmt::format("{} contradicts plan.split peers, which exchanges point to point; expected linear",
                                     name_in(all_to_all_names, plan.all_to_all)));
}

// Plans that share rows or experts out otherwise are built for rows that are copied and sent as they are.
void require_built_together(const Plan& p, const Experiment& e) {
  const bool peers = p.split == Split::Peers, shadows = !p.shadowed_experts.empty();
  const bool repeats = sharding_repeats(p, e.parallelism) > 1;
  const auto fail = [](std::string_view knob, std::string_view with, std::string_view expected) {
    refuse(knob, fmt::format("not built yet together with {}; expected {}", with, expected));
  };
  if (peers || shadows || repeats) {
    const std::string_view with = peers     ? "plan.split peers"
                                  : shadows ? "plan.shadowed_experts"
                                            : "rows repeated by plan.expert_sharding ep_mp";
    if (p.dispatch_wire != Wire::Same) fail("dispatch_wire", with, "same");
    if (p.combine_wire != Wire::Same) fail("combine_wire", with, "same");
    if (p.encoding != Encoding::Sparse) fail("encoding", with, "sparse");
  }
  if (peers && p.restore != Restore::Keep) fail("restore", "plan.split peers", "keep");
  if (peers && p.buffers != Buffers::PerChunk) fail("buffers", "plan.split peers", "per_chunk");
  if (shadows && p.scope == Scope::Block) fail("shadowed_experts", "plan.scope block", "none");
  if (!e.model.expert_profile.given()) return;
  // The profile's experts have their own size, all their rows in one GEMM and no padding.
  if (p.expert_sharding != ExpertSharding::Ep) fail("expert_sharding", "model.expert_profile", "ep");
  if (shadows) fail("shadowed_experts", "model.expert_profile", "none");
  if (p.layout != Layout::ExpertMajor) fail("layout", "model.expert_profile", "expert_major");
  if (p.row_tile > 1) fail("row_tile", "model.expert_profile", "0");
}

}  // namespace dovetail
