// SPDX-License-Identifier: Apache-2.0
#include "models/price/collective_price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/network/node_traffic.hpp"

namespace dovetail {
namespace {

constexpr double rounding = 1e-6;  // of betas and rates in files

// The main uses of groups.
constexpr std::array<std::pair<GroupKind, Collective>, 8> group_collectives{
    {{GroupKind::Ep, Collective::AllToAll},
     {GroupKind::Mp, Collective::AllGather},
     {GroupKind::Esp, Collective::AllGather},
     {GroupKind::Mp, Collective::ReduceScatter},
     {GroupKind::Esp, Collective::ReduceScatter},
     {GroupKind::Dp, Collective::AllReduce},
     {GroupKind::Edp, Collective::AllReduce},
     {GroupKind::Pp, Collective::Send}}};

CollectiveCost interpolate(const CollectiveCost& low, const CollectiveCost& high, int gpus) {
  const double share = static_cast<double>(gpus - low.gpus) / (high.gpus - low.gpus);
  CollectiveCost cost = low;
  cost.gpus = gpus;
  cost.alpha = low.alpha + share * (high.alpha - low.alpha);
  cost.beta = low.beta + share * (high.beta - low.beta);
  cost.provenance.source += fmt::format(", interpolated to {} GPUs", gpus);
  return cost;
}

std::vector<CollectiveCost> entries_of(const Calibration& calibration, Collective collective, LinkKind link) {
  std::vector<CollectiveCost> entries;
  for (const CollectiveCost& cost : calibration.collectives)
    if (cost.collective == collective && cost.link == link) entries.push_back(cost);
  return entries;
}

// The collective whose costs stand in for one that has none.
Collective like(Collective collective) {
  switch (collective) {
    case Collective::Broadcast:
      return Collective::AllGather;
    case Collective::Reduce:
      return Collective::ReduceScatter;
    case Collective::Send:
      return Collective::AllToAll;
    default:
      return collective;
  }
}

double members(const GroupPlace& place) {
  return static_cast<double>(place.shape.ranks) / place.shape.nodes;
}

// Entries with the most similar number of members on a node; the others describe another place.
void keep_nearest(std::vector<CollectiveCost>& entries, double members) {
  const auto distance = [&](const CollectiveCost& cost) {
    return cost.members_per_node == 0 ? 0 : std::abs(std::log(cost.members_per_node / members));
  };
  const CollectiveCost nearest = *std::ranges::min_element(entries, {}, distance);
  std::erase_if(entries, [&](const CollectiveCost& c) { return c.members_per_node != nearest.members_per_node; });
}

// Changes an entry from the place where it was measured, as `measured`, to this one. `gpus` are then those of the
// nodes.
void bring(CollectiveCost& cost, Collective measured, const GroupPlace& place) {
  if (cost.members_per_node == 0) return;
  const double nodes =
      cost.gpus == 0 ? std::numeric_limits<double>::infinity() : 1.0 * cost.gpus / cost.members_per_node;
  cost.gpus = cost.gpus / cost.members_per_node * place.gpus_per_node;
  const double here = card_bytes(cost.collective, place.shape.nodes, members(place), place.least_of_trees);
  const double factor = here / card_bytes(measured, nodes, cost.members_per_node, place.least_of_trees);
  if (std::abs(factor - 1) < rounding) return;
  cost.beta = cost.beta * factor;
  if (cost.outside.beta) cost.outside.beta = *cost.outside.beta * factor;
  cost.provenance.source +=
      fmt::format(", beta x {:.4g}: {:.4g} bytes through the cards for each at {:.3g} on {} nodes", factor, here,
                  members(place), place.shape.nodes);
}

CollectiveCost at(std::vector<CollectiveCost> entries, int gpus) {
  std::ranges::sort(entries, {}, &CollectiveCost::gpus);
  const auto above = std::ranges::lower_bound(entries, gpus, {}, &CollectiveCost::gpus);
  if (above == entries.end()) return entries.back();
  if (above == entries.begin() || above->gpus == gpus) return *above;
  return interpolate(*(above - 1), *above, gpus);
}

Provenance stands_in(Collective measured, const Provenance& of) {
  return {Origin::Assumed, fmt::format("as {} of the same buffer: {}", name_in(collective_names, measured), of.source)};
}

// Nothing where no table has `measured`, which is the collective or one that stands in for it.
std::optional<CollectivePrice> price_by_size(const Calibration& calibration, Collective collective, Collective measured,
                                             int ranks) {
  constexpr Bytes large(1 << 28);
  const auto kind =
      std::ranges::find_if(collective_kernels, [&](const auto& k) { return collective_of(k.second) == measured; });
  if (kind == collective_kernels.end()) return {};
  const KernelTable* const table = find_table(calibration.tables, kind->second, DType::Bf16);
  if (table == nullptr) return {};
  CollectivePrice price;
  price.collective = collective;
  price.link = LinkKind::Intra;
  price.by_size = table;
  price.by_size_ranks = collective == Collective::Send ? 2 : ranks;
  price.provenance = measured == collective ? table->provenance : stands_in(measured, table->provenance);
  price.alpha = table->launch();
  price.beta = SecondsPerByte(price.of(large).busy.value() / large.value());
  return price;
}

// Members on one node send each other their part meanwhile: its time, as beta of the whole.
SecondsPerByte beta_inside(const Calibration& calibration, Collective collective, const GroupPlace& place) {
  if (collective == Collective::Send || members(place) <= 1) return {};
  const double share = collective == Collective::AllToAll ? 1.0 / place.shape.nodes : 1;
  const auto on_node = static_cast<int>(std::lround(members(place)));
  for (const Collective each : {collective, like(collective)})
    if (const auto by_size = price_by_size(calibration, collective, each, on_node)) return share * by_size->beta;
  std::vector<CollectiveCost> entries = entries_of(calibration, collective, LinkKind::Intra);
  if (entries.empty()) entries = entries_of(calibration, like(collective), LinkKind::Intra);
  if (entries.empty()) return {};
  return share * at(std::move(entries), place.gpus_per_node).beta;
}

// A send is one message, wherever its stages lie.
Seconds latency_of(const CollectiveCost& cost, const GroupPlace& place) {
  if (!cost.latency) return {};
  const auto& [hops, inside, between] = *cost.latency;
  if (cost.collective == Collective::Send) return place.shape.crosses_nodes() ? between : inside;
  const double ranks = place.shape.ranks, nodes = place.shape.nodes, on_node = ranks / nodes;
  switch (hops) {
    case Hops::Ring:
      return inside * (ranks - nodes) + between * (nodes - 1);
    case Hops::Tree:
      return inside * (on_node - 1) + between * std::log2(nodes);
    case Hops::Direct:
      return inside * (on_node - 1) + between * (ranks - on_node);
  }
  return {};
}

void hold(CollectiveCost& cost, SecondsPerByte least) {
  cost.beta = std::max(cost.beta, least);
  if (cost.outside.beta) cost.outside.beta = std::max(*cost.outside.beta, least);
}

std::int64_t largest_group(const KernelTable& table) {
  const auto ranks = [](const MeasuredKernel& point) { return point.shape.size[0]; };
  return ranks(*std::ranges::max_element(table.points(), {}, ranks));
}

bool measured_here(const CollectiveCost& cost, const std::vector<CollectiveCost>& entries, const GroupPlace& place,
                   int gpus) {
  return cost.members_per_node * place.shape.nodes == place.shape.ranks &&
         std::ranges::any_of(entries, [&](const CollectiveCost& entry) { return entry.gpus == gpus; });
}

// A calibration has this; where it lacks something, a price refuses.
bool is_held(const Calibration& calibration, Collective collective, const GroupPlace& place) {
  if (collective == Collective::AllToAll)
    if (const MessageCost* messages = find_message(calibration, LinkKind::Inter, Protocol::Simple))
      return place.cards > BytesPerSecond(0) && messages->bandwidth > place.cards * (1 + rounding);
  if (entries_of(calibration, collective, LinkKind::Inter).empty() &&
      entries_of(calibration, like(collective), LinkKind::Inter).empty())
    return false;
  return find_cost(calibration, collective, place).held_by_cards;
}

}  // namespace

Collective collective_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::AllToAll:
      return Collective::AllToAll;
    case KernelKind::AllGather:
      return Collective::AllGather;
    case KernelKind::ReduceScatter:
      return Collective::ReduceScatter;
    case KernelKind::AllReduce:
      return Collective::AllReduce;
    default:
      throw InternalError("no collective");
  }
}

// A message counts as both halves of an all-to-all between two, of which one stays. The bytes of small ones, which may
// take less than a launch, take at least what the fastest would.
ResourceTime CollectivePrice::of(Bytes n) const {
  if (by_size == nullptr) return time_of(*this, n);
  const double bytes = n.value() * (collective == Collective::Send ? 2 : 1);
  const KernelShape shape =
      collective_shape(by_size->kind(), by_size_ranks, std::max<std::int64_t>(1, std::llround(bytes)));
  const Seconds time = by_size->seconds(shape), least(amount(shape) / by_size->fastest());
  const Seconds busy = std::max(time - by_size->launch(), least);
  return {time - busy, busy};
}

BytesPerSecond card_share(const Cluster& cluster) {
  return cluster.nic_bandwidth * cluster.nics_per_node / cluster.gpus_per_node;
}

GroupPlace place_of(const Parallelism& parallelism, GroupKind kind, const Cluster& cluster) {
  // On described links the op has flows, which know better who sends how much.
  return {group_shape(parallelism, kind, cluster), ranks_per_node(parallelism, kind, cluster), cluster.gpus_per_node,
          cluster.network ? BytesPerSecond(0) : card_share(cluster), least_of_trees(cluster)};
}

double card_bytes(Collective collective, double nodes, double members, double least_of_trees) {
  if (collective == Collective::AllToAll || collective == Collective::Send)
    return least_card_bytes(collective, nodes, members);
  return node_traffic(collective, nodes, members, least_of_trees).bytes / members;
}

double least_card_bytes(Collective collective, double nodes, double members) {
  const double elsewhere = 1 - 1 / nodes;  // the share of a buffer that other nodes have, or are to have
  switch (collective) {
    case Collective::AllToAll:
      return elsewhere;
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return elsewhere / members;
    case Collective::AllReduce:
      return 2 * elsewhere / members;
    case Collective::Broadcast:
    case Collective::Reduce:
      return 1 / members;
    default:
      return 1;
  }
}

CollectivePrice find_cost(const Calibration& calibration, Collective collective, const GroupPlace& place) {
  const auto [ranks, nodes] = place.shape;
  const LinkKind link = place.shape.crosses_nodes() ? LinkKind::Inter : LinkKind::Intra;
  Collective measured = collective;
  const auto by_size = [&] {
    return link == LinkKind::Intra ? price_by_size(calibration, collective, measured, ranks) : std::nullopt;
  };
  if (const auto price = by_size()) return *price;
  std::vector<CollectiveCost> entries = entries_of(calibration, collective, link);
  if (entries.empty() && like(collective) != collective) {
    measured = like(collective);
    if (const auto price = by_size()) return *price;
    entries = entries_of(calibration, measured, link);
    for (CollectiveCost& cost : entries) {
      cost.collective = collective;
      cost.provenance = stands_in(measured, cost.provenance);
    }
  }
  if (entries.empty())
    throw InputError(fmt::format("calibration {} has no {} cost on {} links, needed by a group of {} ranks on {} nodes",
                                 calibration.name, name_in(collective_names, collective),
                                 name_in(link_kind_names, link), ranks, nodes));
  const int gpus = nodes * place.gpus_per_node;
  if (link == LinkKind::Intra) {
    CollectivePrice price{at(std::move(entries), gpus)};
    price.alpha += latency_of(price, place);
    return price;
  }
  keep_nearest(entries, members(place));
  for (CollectiveCost& cost : entries) bring(cost, measured, place);
  CollectivePrice price{at(entries, gpus)};
  price.alpha += latency_of(price, place);
  const bool measured_at = measured_here(price, entries, place, gpus);
  if (price.members_per_node > 0 && !measured_at) hold(price, beta_inside(calibration, collective, place));
  if (place.cards <= BytesPerSecond(0)) return price;
  const double bytes = measured_at ? least_card_bytes(collective, nodes, members(place))
                                   : card_bytes(collective, nodes, members(place), place.least_of_trees);
  const auto least = SecondsPerByte(bytes / place.cards.value());
  price.held_by_cards = price.beta < least * (1 - rounding);
  if (price.held_by_cards || price.outside.beta) hold(price, least);
  return price;
}

std::vector<Collective> held_by_cards(const Experiment& e) {
  std::vector<Collective> held;
  for (const auto& [kind, collective] : group_collectives) {
    const GroupPlace place = place_of(e.parallelism, kind, e.cluster);
    const bool known = std::ranges::find(held, collective) != held.end();
    if (!known && place.shape.crosses_nodes() && is_held(*e.calibration, collective, place)) held.push_back(collective);
  }
  return held;
}

std::vector<std::string> trees_taken(const Experiment& e) {
  std::vector<std::string> notes;
  const std::vector<CollectiveCost> entries = entries_of(*e.calibration, Collective::AllReduce, LinkKind::Inter);
  const bool at_a_place = !entries.empty() && entries.front().members_per_node > 0;
  if (e.workload.phases != Phases::Training || !(at_a_place || e.cluster.network)) return notes;
  for (const GroupKind kind : {GroupKind::Dp, GroupKind::Edp}) {
    const GroupPlace place = place_of(e.parallelism, kind, e.cluster);
    const auto [ranks, nodes] = place.shape;
    if (nodes == 1 || (kind == GroupKind::Edp && e.model.dense())) continue;
    const auto [algorithm, bytes] = node_traffic(Collective::AllReduce, nodes, members(place), place.least_of_trees);
    if (algorithm == Algorithm::Trees)
      notes.push_back(
          fmt::format("all_reduce of {} goes by trees, which send {:.3g} times the buffer out of each of {} nodes, "
                      "where a ring sends {:.3g} times",
                      name_in(group_kind_names, kind), bytes, nodes, ring_traffic(Collective::AllReduce, ranks)));
  }
  return notes;
}

std::vector<std::string> extrapolated_groups(const Experiment& e) {
  std::vector<std::string> notes;
  for (const auto& [kind, collective] : group_collectives) {
    const GroupPlace place = place_of(e.parallelism, kind, e.cluster);
    if (place.shape.ranks == 1 || place.shape.crosses_nodes() || collective == Collective::Send) continue;
    const auto price = price_by_size(*e.calibration, collective, collective, place.shape.ranks);
    if (!price) continue;
    const std::int64_t most = largest_group(*price->by_size);
    if (place.shape.ranks > most)
      notes.push_back(
          fmt::format("{}: {} inside a node was measured among at most {} GPUs; its times among {} are "
                      "extrapolated",
                      e.calibration->name, name_in(collective_names, collective), most, place.shape.ranks));
  }
  return notes;
}

}  // namespace dovetail
