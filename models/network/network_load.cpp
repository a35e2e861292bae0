// SPDX-License-Identifier: Apache-2.0
#include "models/network/network_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/base/errors.hpp"
#include "models/network/node_traffic.hpp"

namespace dovetail {
namespace {

constexpr int most_classes = 128;

bool leads(const CollectiveStep& step) {
  return step.every > 1 || step.kind == StepKind::Gather || step.kind == StepKind::Scatter;
}

// In members of the group of experts: the ranks at one place of all nodes, and those of a node.
std::vector<Subgroup> relay_steps(const Schedule& s) {
  std::vector<Subgroup> steps;
  if (s.node_ranks == 0) return steps;
  const int ranks = group_comb(s.groups, GroupKind::Ep).size;
  if (s.node_ranks < ranks) steps.push_back({s.node_ranks, ranks / s.node_ranks});
  if (s.node_ranks > 1) steps.push_back({1, s.node_ranks});
  return steps;
}

std::vector<Subgroup> combs_of(const Experiment& e, const Schedule& s) {
  std::vector<Subgroup> combs;
  for (const auto& [name, kind] : group_kind_names)
    if (const Subgroup comb = group_comb(s.groups, kind);
        comb.size > 1 && kind != GroupKind::World && (kind != GroupKind::Pp || e.parallelism.pp > 1))
      combs.push_back(comb);
  const Subgroup experts = group_comb(s.groups, GroupKind::Ep);
  for (const Subgroup& relay : relay_steps(s)) combs.push_back({experts.stride * relay.stride, relay.size});
  for (const CollectiveStep& step : s.steps)
    if (step.kind != StepKind::Copy) combs.push_back({experts.stride * step.subgroup.stride, step.subgroup.size});
  return combs;
}

std::vector<std::uint64_t> colours_of(const Experiment& e, const Schedule& s) {
  const bool stages = e.parallelism.pp > 1, routed = s.routed && e.workload.message_sizes == MessageSizes::Routed;
  const auto leader_step = std::ranges::find_if(s.steps, leads);
  if (!stages && !routed && leader_step == s.steps.end()) return {};
  std::optional<RoutedRows> rows;
  if (routed) rows.emplace(e, s);
  const Subgroup experts = group_comb(s.groups, GroupKind::Ep);
  std::vector<std::uint64_t> colours(static_cast<std::size_t>(e.cluster.gpus()));
  for (std::size_t rank = 0; rank < colours.size(); ++rank) {
    const int r = static_cast<int>(rank);
    if (rows) colours[rank] = rows->colour(r);
    if (stages) colours[rank] = static_cast<std::uint64_t>(r / e.parallelism.stage_ranks());
    for (const CollectiveStep& step : s.steps)
      if (leads(step)) {
        const int place = r / experts.stride % experts.size;
        const bool leader =
            step.every > 1 ? place % step.every == 0 : place / step.subgroup.stride % step.subgroup.size == 0;
        colours[rank] = 2 * colours[rank] + (leader ? 1 : 0);
      }
  }
  return colours;
}

}  // namespace

FoldedNetwork fold(const Experiment& e, const Schedule& s) {
  FoldedNetwork network(e.cluster, colours_of(e, s), combs_of(e, s));
  if (e.parallelism.pp > 1 && network.classes() != e.parallelism.pp)
    throw InputError(
        fmt::format("{} pipeline stages fall apart into {} classes of ranks that differ in speed or in the "
                    "switches they share: not simulated together",
                    e.parallelism.pp, network.classes()));
  if (network.classes() > most_classes)
    throw InputError(
        fmt::format("{} classes of ranks that differ, expected at most {}", network.classes(), most_classes));
  return network;
}

NetworkLoad::NetworkLoad(const Experiment& e, const Schedule& schedule, FoldedNetwork network)
    : s_(schedule),
      cluster_(e.cluster),
      stage_ranks_(e.parallelism.pp > 1 ? e.parallelism.stage_ranks() : 0),
      network_(std::move(network)) {
  if (s_.routed && e.workload.message_sizes == MessageSizes::Routed) routed_.emplace(e, s_);
}

Work NetworkLoad::work(const Op& op) const {
  return routed_ ? routed_->work(op, network_.representative(s_.class_of(op))) : *op.work;
}

std::vector<std::string> NetworkLoad::resources() const {
  std::vector<std::string> names;
  for (const LinkClass& link : network_.links()) {
    int number = 0;
    for (const LinkClass& other : network_.links().first(static_cast<std::size_t>(&link - network_.links().data())))
      number += other.name == link.name;
    names.push_back(number == 0 ? link.name : fmt::format("{}#{}", link.name, number));
  }
  for (int c = 0; c < network_.classes(); ++c)
    names.push_back(network_.classes() == 1 ? "device memory" : fmt::format("device memory#{}", c));
  return names;
}

NetworkDemand NetworkLoad::memory(int rank_class, Bytes traffic) const {
  return {static_cast<int>(network_.links().size()) + rank_class, traffic / cluster_.device.memory_bandwidth, 1};
}

NetworkDemand NetworkLoad::on_link(const LinkAmount& use, Bytes bytes, double flows) const {
  return {use.link, use.amount * bytes / network_.links()[static_cast<std::size_t>(use.link)].bandwidth, flows};
}

// With pipeline stages an op belongs to its own class alone, otherwise to all classes.
bool NetworkLoad::concerns(int rank_class, const Op& op) const {
  return stage_ranks_ == 0 || rank_class == s_.class_of(op);
}

const std::vector<NetworkLoad::Exchange>& NetworkLoad::exchanges(const Op& op) {
  const auto steps = s_.steps_of(op);
  constexpr int whole = -1, relayed = -2;
  const bool relays = s_.relays(op);
  const auto [at, fresh] = exchanges_.try_emplace({op.group(), relays          ? relayed
                                                               : steps.empty() ? whole
                                                                               : op.exchange()->steps.first});
  if (!fresh) return at->second;
  const Subgroup group = group_comb(s_.groups, op.group());
  if (relays) {
    for (const Subgroup& step : relay_steps(s_))
      at->second.push_back(
          {network_.flows({group, StepKind::Exchange, step, 1}), 0, {group.stride * step.stride, step.size}});
    return at->second;
  }
  if (steps.empty()) at->second.push_back({network_.flows({group, StepKind::Exchange, {1, group.size}, 1}), 1});
  for (const CollectiveStep& step : steps)
    if (step.kind != StepKind::Copy)
      at->second.push_back(
          {network_.flows({group, step.kind, step.subgroup, step.every}), static_cast<double>(step.outer * step.run)});
  return at->second;
}

const std::vector<RingClass>& NetworkLoad::rings(const Op& op) {
  const auto [at, fresh] = rings_.try_emplace({op.group(), op.collective()});
  if (fresh)
    at->second = network_.ring(group_comb(s_.groups, op.group()),
                               share_of_ring(op.collective(), s_.groups, op.group(), cluster_));
  return at->second;
}

// The flow to the stage whose tensor the op writes.
FlowClass NetworkLoad::stage_flow(const Op& op) const {
  const int from = s_.class_of(op);
  const int to = s_.tensors[s_.writes_of(op).front()].rank_class;
  return network_.send(from, (to - from) * stage_ranks_);
}

// The bytes that one rank has for one other.
Bytes NetworkLoad::block_bytes(const Op& op) const {
  const auto steps = s_.steps_of(op);
  if (!steps.empty()) return op.message() / static_cast<double>(exchanged_blocks(steps));
  return op.message() / static_cast<double>(group_comb(s_.groups, op.group()).size);
}

// The mean over the rank's peers that the flows go to.
Bytes NetworkLoad::relayed_bytes(const Op& op, Subgroup peers, const FlowClass& flow) const {
  const int rank = network_.representative(flow.from), place = rank / peers.stride % peers.size;
  Bytes sum;
  double count = 0;
  for (int i = 0; i < peers.size; ++i) {
    const int peer = rank + (i - place) * peers.stride;
    if (i == place || network_.class_of(peer) != flow.to || network_.topology().between(rank, peer) != flow.tiers)
      continue;
    sum += routed_->copies().bytes(op, rank, peer);
    ++count;
  }
  check(count > 0, "flows to no peer");
  return sum / count;
}

double NetworkLoad::share(const Op& op, const FlowClass& flow) const {
  if (!routed_ || op.group() != GroupKind::Ep || !RoutedRows::moves(op)) return 1;
  return routed_->share(op, network_.representative(flow.from), network_.representative(flow.to));
}

// visit(flows, bytes of each).
template <class Visit>
void NetworkLoad::for_each_flow(const Op& op, Visit visit) {
  if (op.collective() == Collective::Send) return visit(stage_flow(op), op.message());
  for (const Exchange& exchange : exchanges(op))
    for (const FlowClass& flow : exchange.flows)
      if (concerns(flow.from, op))
        visit(flow, s_.relays(op) ? relayed_bytes(op, exchange.relay, flow)
                                  : block_bytes(op) * exchange.blocks * share(op, flow));
}

// visit(ring, bytes that each rank passes on).
template <class Visit>
void NetworkLoad::for_each_ring(const Op& op, Visit visit) {
  for (const RingClass& ring : rings(op))
    if (concerns(ring.members.front(), op)) {
      const int rank = network_.representative(ring.members.front());
      const Bytes message = routed_ ? std::get<ExchangeWork>(routed_->work(op, rank)).message : op.message();
      visit(ring, message * ring_traffic(op.collective(), group_comb(s_.groups, op.group()).size));
    }
}

std::vector<NetworkActivity> NetworkLoad::activities(const Op& op) {
  std::vector<NetworkActivity> list;
  if (op.collective() == Collective::None || s_.joins_stages(op)) return list;  // one number of all stages
  if (op.collective() != Collective::AllToAll && op.collective() != Collective::Send) {
    for_each_ring(op, [&](const RingClass& ring, Bytes bytes) {
      NetworkActivity& activity = list.emplace_back(NetworkActivity{ring.members, {}});
      for (const LinkAmount& use : ring.uses)
        activity.demands.push_back(on_link(use, bytes, std::max(1.0, use.amount)));
      for (int c : ring.members) activity.demands.push_back(memory(c, 2 * bytes));
    });
    return list;
  }
  for_each_flow(op, [&](const FlowClass& flow, Bytes bytes) {
    NetworkActivity& activity = list.emplace_back(NetworkActivity{{flow.from}, {}});
    const bool sent = op.collective() == Collective::Send;  // its receiver has an op of its own
    if (!sent && flow.to != flow.from) activity.classes.push_back(flow.to);
    std::ranges::sort(activity.classes);
    for (const LinkAmount& use : flow.uses) activity.demands.push_back(on_link(use, bytes, use.amount));
    for (const auto& [c, flows] : {std::pair{flow.from, flow.of_sender}, {flow.to, flow.of_receiver}}) {
      NetworkDemand demand = memory(c, flows * bytes);
      demand.flows = flows;
      activity.demands.push_back(demand);
    }
  });
  return list;
}

std::vector<LinkAmount> NetworkLoad::volumes(const Op& op) {
  std::map<int, double> sum;
  if (op.collective() == Collective::AllToAll || op.collective() == Collective::Send)
    for_each_flow(op, [&](const FlowClass& flow, Bytes bytes) {
      for (const LinkAmount& use : flow.uses)
        sum[use.link] += use.amount * network_.links()[static_cast<std::size_t>(use.link)].links * bytes.value();
    });
  else if (op.collective() != Collective::None && !s_.joins_stages(op))
    for_each_ring(op, [&](const RingClass& ring, Bytes bytes) {
      for (const LinkAmount& use : ring.all) sum[use.link] += use.amount * bytes.value();
    });
  std::vector<LinkAmount> list;
  for (const auto& [link, bytes] : sum) list.push_back({link, bytes});
  return list;
}

}  // namespace dovetail
