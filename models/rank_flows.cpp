#include "models/rank_flows.hpp"

#include "models/ring_hops.hpp"

namespace dovetail {
namespace {

using Flows = std::vector<RankFlow>;

void add(Flows& flows, int from, int to, Bytes bytes) {
  if (from != to && bytes > Bytes(0)) flows.push_back({from, to, bytes});
}

void add_exchange(const Op& op, std::span<const CollectiveStep> steps, const std::vector<int>& group, Flows& flows) {
  const int size = static_cast<int>(group.size());
  const CollectiveStep whole = exchange_step({1, size}, 1, 1);
  if (steps.empty()) steps = {&whole, 1};
  const Bytes block = op.work.message / static_cast<double>(exchanged_blocks(steps));
  for (const CollectiveStep& step : steps) {
    if (step.kind == StepKind::Copy) continue;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<double> blocks(group.size());
      for (const Move& move : moves_from(step, rank))
        blocks[static_cast<std::size_t>(move.target)] += static_cast<double>(move.blocks);
      for (std::size_t to = 0; to < group.size(); ++to)
        add(flows, group[static_cast<std::size_t>(rank)], group[to], block * blocks[to]);
    }
  }
}

void add_ring(const Experiment& e, const Schedule& s, const Op& op, Flows& flows) {
  const Subgroup group = group_comb(s.groups, op.work.group);
  if (group.size < 2) return;
  const Bytes bytes = ring_bytes(op, group.size);
  for (int rank = 0; rank < e.cluster.gpus(); ++rank) {
    const RingHops hops = ring_hops(group, rank, e.cluster.gpus_per_node);
    if (hops.inside >= 0) add(flows, rank, hops.inside, bytes * hops.share_inside);
    if (hops.outside >= 0) add(flows, rank, hops.outside, bytes * hops.share_outside);
  }
}

}  // namespace

Bytes ring_bytes(const Op& op, int ranks) {
  const double passed = (ranks - 1.0) / ranks;
  switch (op.work.collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return op.work.message * passed;
    case Collective::AllReduce:
      return op.work.message * (2 * passed);
    default:  // a broadcast's last rank passes nothing on, which is left out
      return op.work.message;
  }
}

std::vector<RankFlow> rank_flows(const Experiment& e, const Schedule& s, const Op& op) {
  Flows flows;
  const int gpus = e.cluster.gpus();
  switch (op.work.collective) {
    case Collective::None:
      break;
    case Collective::Send: {
      const int from = s.class_of(op);
      const int to = s.tensors[static_cast<std::size_t>(s.writes_of(op).front())].rank_class;
      for (int rank = 0; rank < gpus; ++rank)
        if (s.class_of_rank(rank) == from)
          add(flows, rank, rank + (to - from) * e.parallelism.stage_ranks(), op.work.message);
      break;
    }
    case Collective::AllToAll:
      for (int rank = 0; rank < gpus; ++rank)
        if (const std::vector<int> group = group_members(s.groups, op.work.group, rank); group.front() == rank)
          add_exchange(op, s.steps_of(op), group, flows);
      break;
    default:
      add_ring(e, s, op, flows);
  }
  if (e.parallelism.pp > 1)
    std::erase_if(flows, [&](const RankFlow& flow) { return s.class_of_rank(flow.from) != s.class_of(op); });
  return flows;
}

}  // namespace dovetail
