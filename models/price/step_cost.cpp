// SPDX-License-Identifier: Apache-2.0
#include "models/price/step_cost.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr auto compute = static_cast<std::size_t>(InterferenceClass::Compute);
constexpr auto inter = static_cast<std::size_t>(InterferenceClass::Inter);
constexpr auto intra = static_cast<std::size_t>(InterferenceClass::Intra);

// `cards`: what the link can carry at most; 0: not described.
ResourceTime by_message(const MessageCost& cost, const LinkTraffic& traffic, std::int64_t all_peers, Bytes block,
                        BytesPerSecond cards) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  const double growth = cost.connections > 0 ? count(all_peers) / cost.connections : 0;
  const Bytes sent = block * count(traffic.blocks);
  Seconds busy = sent / cost.bandwidth;
  if (cost.peer_bandwidth > BytesPerSecond(0)) busy = std::max(busy, sent / count(traffic.peers) / cost.peer_bandwidth);
  if (cards > BytesPerSecond(0)) busy = std::max(busy, sent / cards);
  return {cost.per_message * (count(traffic.messages) * (1 + growth)), busy};
}

// False: the calibration does not know messages on a link that is used.
bool price_messages(const Calibration& calibration, Protocol protocol, const Traffic& traffic, Bytes block,
                    BytesPerSecond cards, StepCost& cost) {
  const std::int64_t peers = traffic.intra.peers + traffic.inter.peers;
  for (const auto& [link, at, sent] :
       {std::tuple{LinkKind::Inter, inter, traffic.inter}, std::tuple{LinkKind::Intra, intra, traffic.intra}}) {
    if (sent.peers == 0) continue;
    const MessageCost* const messages = find_message(calibration, link, protocol);
    if (messages == nullptr) return false;
    cost[at] = by_message(*messages, sent, peers, block, link == LinkKind::Inter ? cards : BytesPerSecond(0));
  }
  return true;
}

StepCost alpha_beta(const Calibration& calibration, const CollectiveStep& step, const GroupPlace& place, Bytes bytes) {
  GroupPlace among = place;
  if (step.subgroup.size != place.shape.ranks) {
    among.ranks_per_node = members_per_node(step.subgroup, place.ranks_per_node);
    among.shape = {step.subgroup.size, step.subgroup.size / among.ranks_per_node};
  }
  const Collective like = step.kind == StepKind::Exchange ? Collective::AllToAll : Collective::AllGather;
  const CollectivePrice known = find_cost(calibration, like, among);
  StepCost cost;
  const auto times = static_cast<double>(step.outer);
  const ResourceTime each = known.of(bytes / times);
  cost[known.link == LinkKind::Inter ? inter : intra] = {times * each.fixed, times * each.busy};
  return cost;
}

// `bytes`: of step.blocks().
StepCost one_step(const Calibration& calibration, const CollectiveStep& step, Protocol protocol,
                  const GroupPlace& place, Bytes bytes) {
  StepCost cost;
  if (step.kind == StepKind::Copy) {
    const MemoryCost& copy = calibration.strided_copy ? *calibration.strided_copy : calibration.memory;
    cost[compute] = time_of(copy, 2 * bytes);
    return cost;
  }
  const Bytes block = bytes / static_cast<double>(step.blocks());
  const Traffic sent = traffic(step, std::max(1, place.ranks_per_node));
  if (protocol == Protocol::LowLatency) {
    check(price_messages(calibration, protocol, sent, block, place.cards, cost), "no costs of low_latency messages");
    return cost;
  }
  const StepCost simple = price_messages(calibration, Protocol::Simple, sent, block, place.cards, cost)
                              ? cost
                              : alpha_beta(calibration, step, place, bytes);
  if (protocol == Protocol::Simple) return simple;
  const StepCost sooner = one_step(calibration, step, Protocol::LowLatency, place, bytes);
  return duration_of(sooner) < duration_of(simple) ? sooner : simple;
}

}  // namespace

Seconds fixed_of(const StepCost& cost) {
  return std::ranges::max(cost, {}, &ResourceTime::fixed).fixed;
}

Seconds duration_of(const StepCost& cost) {
  return fixed_of(cost) + std::ranges::max(cost, {}, &ResourceTime::busy).busy;
}

StepCost step_cost(const Calibration& calibration, std::span<const CollectiveStep> steps, const ExchangeWork& work,
                   const GroupPlace& place) {
  const CollectiveStep whole = exchange_step({1, place.shape.ranks}, 1, 1);
  if (steps.empty()) steps = {&whole, 1};
  const std::int64_t exchanged = exchanged_blocks(steps), copied = copied_blocks(steps);
  StepCost sum;
  for (const CollectiveStep& step : steps) {
    const bool copies = step.kind == StepKind::Copy;
    const double share = static_cast<double>(step.blocks()) / static_cast<double>(copies ? copied : exchanged);
    const Bytes bytes = copies ? work.copy_traffic / 2 : work.message;
    const StepCost cost = one_step(calibration, step, work.protocol, place, bytes * share);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i].fixed += cost[i].fixed;
      sum[i].busy += cost[i].busy;
    }
  }
  return sum;
}

namespace {

// The kernel's copies of rows. Between nodes multiprocessors also write each row for a node and pass it on there. That
// takes them as long as so many copies inside a node: between the values that times on 2 and on 4 nodes with few
// multiprocessors give (data/operators/h100-deepep-2-4-nodes.json: 1.3 and 1.3, 3.0 and 2.4).
std::int64_t copies_of(const RelayKernel& kernel, Bytes to_other_nodes, int nodes) {
  if (nodes == 1) return kernel.copies;
  const double forwarding = kernel.kind == KernelKind::Dispatch ? 1.3 : 2.7;
  const double rows = to_other_nodes / kernel.row * nodes / (nodes - 1.0);  // for its own node as many as for another
  return kernel.copies + std::llround(forwarding * rows);
}

}  // namespace

StepCost relay_cost(const Calibration& calibration, const ExchangeWork& work, const GroupPlace& place,
                    const RelayKernel& kernel) {
  const int on_node = place.ranks_per_node, nodes = place.shape.ranks / on_node;
  // Costs count what a rank has for itself too.
  const auto linear = [&](Subgroup ranks, Bytes sent) {
    const CollectiveStep step = exchange_step(ranks, 1, place.shape.ranks / ranks.size);
    return one_step(calibration, step, Protocol::Simple, place, sent * ranks.size / (ranks.size - 1.0));
  };
  StepCost cost;
  if (nodes > 1) cost = linear({on_node, nodes}, work.to_nodes);
  if (on_node == 1) return cost;
  const KernelTable* const measured = find_table(calibration.tables, kernel.kind);
  if (measured == nullptr) {
    cost[intra] = linear({1, on_node}, work.in_node)[intra];
    return cost;
  }
  const auto numbers = std::llround(kernel.row / size_of(measured->dtype()));
  const Seconds time = measured->seconds(exchange_shape(
      kernel.kind, kernel.tokens, copies_of(kernel, work.to_nodes, nodes), numbers, kernel.multiprocessors));
  const Seconds launch = std::min(time, measured->launch());
  cost[intra] = {launch, time - launch};
  return cost;
}

}  // namespace dovetail
