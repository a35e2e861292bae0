// SPDX-License-Identifier: Apache-2.0
#include "models/price/host_profile.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "models/schedule/launches.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail {
namespace {

constexpr std::size_t phases = phase_names.size();

HostWork operator*(double times, const HostWork& work) {
  return {times * work.work, times * work.kernels};
}

HostWork of_sizes(const SizedHostWork& work, const HostSizes& sizes) {
  HostWork sum = work.once;
  sum += sizes.experts * work.each_expert;
  sum += sizes.blocks * work.each_block;
  return sum += sizes.weights * work.each_weight;
}

// The entries of this schedule, summed up.
class HostTable {
 public:
  HostTable(const Schedule& s, const HostProfile& profile, const HostSizes& sizes) {
    for (const HostEntry& entry : profile.entries) {
      if (!std::ranges::all_of(entry.cases, [&](HostCase each) { return holds(each, s); })) continue;
      std::optional<HostWork>& work = all_[at(entry.op, entry.phase)];
      work = work.value_or(HostWork{});
      *work += of_sizes(entry.work, sizes);
    }
  }

  // With the launches of its products. Attention with its projections in one op does the host work of both. If an op is
  // in halves the half of the inputs does the work, and that of the weights has its launches alone.
  HostWork of(const Op& op) const {
    const std::optional<HostWork>& own = all_[at(op.kind, op.phase)];
    if (!own || op.half == Half::Weights) return {Seconds(0), static_cast<double>(launches_of(op))};
    HostWork work = *own;
    if (op.kernel() != nullptr) work.kernels += op.kernel()->gemms;
    if (op.kind == OpKind::Attention && holds_projections(op))
      if (const auto& projection = all_[at(OpKind::Projection, op.phase)]) work += *projection;
    return work;
  }

 private:
  static std::size_t at(OpKind kind, Phase phase) {
    return static_cast<std::size_t>(kind) * phases + static_cast<std::size_t>(phase);
  }
  // Ops of attention alone say that another op has the small kernels of the projections.
  static bool holds_projections(const Op& op) {
    return op.chunk < 0 && op.kernel() != nullptr &&
           op.kernel()->elsewhere < entry_of(OpKind::Projection).small.of(op.phase);
  }

  std::array<std::optional<HostWork>, op_kinds * phases> all_;
};

// Whether an op is the first of a pass of a micro-batch through a virtual stage, which goes from layer to layer.
// Forward and backward passes alternate in a pair and each begin once. The gradients of weights are no pass of their
// own.
class Passes {
 public:
  explicit Passes(const Schedule& s) : last_(s.classes.size()) {}

  bool begins(const Op& op, std::size_t rank_class) {
    if (op.half == Half::Weights || entry_of(op.kind).part == OpPart::StepEnd) return false;
    Place& last = last_[rank_class][static_cast<std::size_t>(op.pass())];
    const bool goes_on = op.micro_batch == last.micro_batch && std::abs(op.layer - last.layer) <= 1;
    last = {op.micro_batch, op.layer};
    return !goes_on;
  }

 private:
  struct Place {
    int micro_batch = -1, layer = 0;
  };
  std::vector<std::array<Place, phases>> last_;  // of the latest op, by phase
};

}  // namespace

bool holds(HostCase host_case, const Schedule& s) {
  switch (host_case) {
    case HostCase::Routed:
      return s.routed;
    case HostCase::Padded:
      return !s.routed;
    case HostCase::Deduplicated:
      return s.all_to_all == AllToAll::NodeDeduplicated;
    case HostCase::NotDeduplicated:
      return s.all_to_all != AllToAll::NodeDeduplicated;
    case HostCase::Paired:
      return s.paired;
  }
  return false;
}

// Matrices and vectors of a rank. Attention has two matrices and a norm, or those of its low ranks too; a feed-forward
// part has two and a norm, and an MoE layer a router and two for each expert.
HostSizes host_sizes(const Experiment& e) {
  const Parallelism& p = e.parallelism;
  HostSizes sizes;
  if (!e.model.dense()) {
    sizes.experts = static_cast<double>(e.model.experts) / p.ep;
    sizes.blocks = static_cast<double>(e.model.experts) * p.esp;
  }
  const bool latent = e.model.attention.kind == AttentionKind::Latent;
  for (int layer = 0; layer < e.workload.all_layers(); ++layer) {
    sizes.weights += latent ? 8 : 3;
    if (e.model.is_moe(layer)) sizes.weights += 2 + 2 * sizes.experts + (e.model.shared_experts.count > 0 ? 2 : 0);
    if (!e.model.is_moe(layer)) sizes.weights += 3;
  }
  sizes.weights = sizes.weights / p.pp + 2;  // with the ends of the model
  return sizes;
}

PassTimes pass_times(const HostProfile& profile, HostPace pace, const HostSizes& sizes) {
  const auto time = [&](const SizedHostWork& sized) {
    const HostWork work = of_sizes(sized, sizes);
    return pace.work * work.work + work.kernels * pace.launch;
  };
  return {time(profile.forward_pass), time(profile.backward_pass)};
}

IdVector<OpId, Seconds> host_times(const Schedule& s, const HostProfile& profile, HostPace pace,
                                   const HostSizes& sizes) {
  const HostTable table(s, profile, sizes);
  const HostWork step = of_sizes(profile.step, sizes);
  const PassTimes begin = pass_times(profile, pace, sizes);
  Passes passes(s);
  std::vector<bool> in_graph(s.classes.size());
  IdVector<OpId, Seconds> times;
  times.reserve(s.ops.size());
  for (const Op& op : s.ops) {
    const auto rank_class = static_cast<std::size_t>(s.class_of(op));
    const bool captured = is_captured(s.graphs, op.kind);
    HostWork work;
    if (!captured)
      work = table.of(op);
    else if (!in_graph[rank_class])
      work = {profile.graph, 1};
    if (op.kind == OpKind::Update) work += step;
    in_graph[rank_class] = captured;
    times.push_back(pace.work * work.work + work.kernels * pace.launch);
    if (passes.begins(op, rank_class) && s.graphs != Graphs::All)
      times.back() += op.pass() == Phase::Forward ? begin.forward : begin.backward;
  }
  return times;
}

}  // namespace dovetail
