// SPDX-License-Identifier: Apache-2.0
#include "models/network/rank_flows.hpp"

#include "models/network/node_traffic.hpp"
#include "models/network/ring_hops.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail {
namespace {

void add(std::vector<RankFlow>& flows, int from, int to, Bytes bytes) {
  if (from != to && bytes > Bytes(0)) flows.push_back({from, to, bytes});
}

std::vector<Transfer> sends_of(const LoweredStep& step, std::int64_t members) {
  if (const auto* native = std::get_if<NativeCollective>(&step))
    return messages_of(*native, static_cast<int>(members)).sends;
  const auto* transfers = std::get_if<Transfers>(&step);
  return transfers == nullptr ? std::vector<Transfer>() : transfers->sends;
}

}  // namespace

RankFlows::RankFlows(const Experiment& experiment, const Schedule& schedule) : e_(experiment), s_(schedule) {
  if (schedule.routed) routed_.emplace(experiment, schedule);
}

std::vector<RankFlow> RankFlows::of(const Op& op) const {
  std::vector<RankFlow> flows;
  const int gpus = e_.cluster.gpus();
  const bool messages = op.collective() == Collective::AllToAll || op.collective() == Collective::Send;
  if (op.collective() == Collective::None || s_.joins_stages(op)) return flows;  // one number of all stages
  if (!messages) add_ring(op, flows);
  for (int rank = 0; messages && rank < gpus; ++rank)
    if (const std::vector<int> group = group_members(s_.groups, op.group(), rank); group.front() == rank)
      s_.relays(op) ? add_relayed(op, group, flows) : add_messages(op, group, flows);
  if (e_.parallelism.pp > 1)
    std::erase_if(flows, [&](const RankFlow& flow) { return s_.class_of_rank(flow.from) != s_.class_of(op); });
  return flows;
}

void RankFlows::add_messages(const Op& op, const std::vector<int>& group, std::vector<RankFlow>& flows) const {
  std::vector<LoweredOp> members;
  for (int rank : group) members.push_back(lower(s_, op, rank));
  const DType stored = s_.tensors[s_.reads_of(op).front()].dtype;
  const bool routed = routed_ && op.group() == GroupKind::Ep && RoutedRows::moves(op);
  for (std::size_t step = 0; step < members.front().steps.size(); ++step)
    for (std::size_t from = 0; from < group.size(); ++from) {
      std::vector<std::int64_t> elements(group.size());
      for (const Transfer& sent : sends_of(members[from].steps[step], std::ssize(group)))
        elements[static_cast<std::size_t>(sent.peer)] += sent.region.count;
      for (std::size_t to = 0; to < group.size(); ++to)
        add(flows, group[from], group[to],
            static_cast<double>(elements[to]) * size_of(stored) *
                (routed ? routed_->share(op, group[from], group[to]) : 1));
    }
}

// To the ranks of the node, and to those at the same place of the other nodes.
void RankFlows::add_relayed(const Op& op, const std::vector<int>& group, std::vector<RankFlow>& flows) const {
  const auto node = static_cast<std::size_t>(s_.node_ranks);
  for (std::size_t from = 0; from < group.size(); ++from)
    for (std::size_t to = 0; to < group.size(); ++to)
      if (from != to && (from / node == to / node || from % node == to % node))
        add(flows, group[from], group[to], routed_->copies().bytes(op, group[from], group[to]));
}

void RankFlows::add_ring(const Op& op, std::vector<RankFlow>& flows) const {
  const Subgroup group = group_comb(s_.groups, op.group());
  if (group.size < 2) return;
  const double between = share_of_ring(op.collective(), s_.groups, op.group(), e_.cluster);
  for (int rank = 0; rank < e_.cluster.gpus(); ++rank) {
    const Bytes message = routed_ ? std::get<ExchangeWork>(routed_->work(op, rank)).message : op.message();
    const Bytes bytes = message * ring_traffic(op.collective(), group.size);
    const RingHops hops = ring_hops(group, rank, e_.cluster.gpus_per_node);
    if (hops.inside >= 0) add(flows, rank, hops.inside, bytes * hops.share_inside);
    if (hops.outside >= 0) add(flows, rank, hops.outside, bytes * hops.share_outside * between);
  }
}

}  // namespace dovetail
