#include "models/network/rank_flows.hpp"

#include "models/network/ring_hops.hpp"

namespace dovetail {
namespace {

void add(std::vector<RankFlow>& flows, int from, int to, Bytes bytes) {
  if (from != to && bytes > Bytes(0)) flows.push_back({from, to, bytes});
}

}  // namespace

Bytes ring_bytes(Collective collective, Bytes message, int ranks) {
  const double passed = (ranks - 1.0) / ranks;
  switch (collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return message * passed;
    case Collective::AllReduce:
      return message * (2 * passed);
    default:  // a broadcast's last rank passes nothing on, which is left out
      return message;
  }
}

RankFlows::RankFlows(const Experiment& experiment, const Schedule& schedule) : e_(experiment), s_(schedule) {
  if (experiment.workload.message_sizes == MessageSizes::Routed) routed_.emplace(experiment, schedule);
}

std::vector<RankFlow> RankFlows::of(const Op& op) const {
  std::vector<RankFlow> flows;
  const int gpus = e_.cluster.gpus();
  switch (op.collective()) {
    case Collective::None:
      break;
    case Collective::Send: {
      const int from = s_.class_of(op);
      const int to = s_.tensors[static_cast<std::size_t>(s_.writes_of(op).front())].rank_class;
      for (int rank = 0; rank < gpus; ++rank)
        if (s_.class_of_rank(rank) == from)
          add(flows, rank, rank + (to - from) * e_.parallelism.stage_ranks(), op.message());
      break;
    }
    case Collective::AllToAll:
      for (int rank = 0; rank < gpus; ++rank)
        if (const std::vector<int> group = group_members(s_.groups, op.group(), rank); group.front() == rank)
          add_exchange(op, group, flows);
      break;
    default:
      add_ring(op, flows);
  }
  if (e_.parallelism.pp > 1)
    std::erase_if(flows, [&](const RankFlow& flow) { return s_.class_of_rank(flow.from) != s_.class_of(op); });
  return flows;
}

void RankFlows::add_exchange(const Op& op, const std::vector<int>& group, std::vector<RankFlow>& flows) const {
  const int size = static_cast<int>(group.size());
  const CollectiveStep whole = exchange_step({1, size}, 1, 1);
  const auto given = s_.steps_of(op);
  const std::span<const CollectiveStep> steps = given.empty() ? std::span(&whole, 1) : given;
  const Bytes block = op.message() / static_cast<double>(exchanged_blocks(steps));
  for (const CollectiveStep& step : steps) {
    if (step.kind == StepKind::Copy) continue;
    for (int i = 0; i < size; ++i) {
      const int from = group[static_cast<std::size_t>(i)];
      std::vector<double> blocks(group.size());
      for (const Move& move : moves_from(step, i))
        blocks[static_cast<std::size_t>(move.target)] += static_cast<double>(move.blocks);
      for (std::size_t to = 0; to < group.size(); ++to) {
        if (blocks[to] <= 0) continue;
        const bool routed = routed_ && op.group() == GroupKind::Ep;
        add(flows, from, group[to], block * blocks[to] * (routed ? routed_->share(op, from, group[to]) : 1));
      }
    }
  }
}

void RankFlows::add_ring(const Op& op, std::vector<RankFlow>& flows) const {
  const Subgroup group = group_comb(s_.groups, op.group());
  if (group.size < 2) return;
  for (int rank = 0; rank < e_.cluster.gpus(); ++rank) {
    const Bytes message = routed_ ? std::get<ExchangeWork>(routed_->work(op, rank)).message : op.message();
    const Bytes bytes = ring_bytes(op.collective(), message, group.size);
    const RingHops hops = ring_hops(group, rank, e_.cluster.gpus_per_node);
    if (hops.inside >= 0) add(flows, rank, hops.inside, bytes * hops.share_inside);
    if (hops.outside >= 0) add(flows, rank, hops.outside, bytes * hops.share_outside);
  }
}

}  // namespace dovetail
