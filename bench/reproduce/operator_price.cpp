// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/operator_price.hpp"

#include <fmt/format.h>

#include "models/base/errors.hpp"
#include "models/network/token_copies.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/kernel_price.hpp"
#include "models/price/step_cost.hpp"
#include "models/question/drawn_choices.hpp"

namespace dovetail::bench {
namespace {

Seconds whole(const ResourceTime& time) {
  return time.fixed + time.busy;
}

GroupPlace place_of_ranks(int ranks, Cluster cluster) {
  cluster.nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  Parallelism groups;
  groups.mp = ranks;
  groups.dp = cluster.gpus() / ranks;
  return place_of(groups, GroupKind::Mp, cluster);
}

Seconds kernel_seconds(const OperatorWork& work, const Calibration& costs, bool sustained) {
  const KernelUse kernel{work.shape};
  return whole(KernelPrices(costs, work.dtype, {}, sustained).of({&kernel, 1}, 1));
}

Seconds collective_seconds(const OperatorWork& work, const GroupPlace& place, const Calibration& costs) {
  const Collective collective = collective_of(work.shape.kind);
  const Bytes message(static_cast<double>(work.shape.size[1]));
  if (collective != Collective::AllToAll) return whole(find_cost(costs, collective, place).of(message));
  ExchangeWork exchange;
  exchange.collective = collective;
  exchange.message = message;
  return duration_of(step_cost(costs, {}, exchange, place));
}

// Each token goes once to each node, and there to each rank, that has one of its experts.
Seconds relay_seconds(const OperatorWork& work, const GroupPlace& place, const Calibration& costs) {
  const bool to_owners = work.shape.kind == KernelKind::Dispatch;
  const auto [tokens, copies, hidden, multiprocessors, unused] = work.shape.size;
  const int nodes = place.shape.nodes, on_node = work.ranks / nodes, top_k = static_cast<int>(work.top_k);
  RelayKernel kernel{work.shape.kind, tokens, copies, static_cast<double>(hidden) * size_of(work.dtype),
                     static_cast<int>(multiprocessors)};
  const double rows_of_rank = 1.0 * static_cast<double>(copies) / work.ranks,
               rows_of_node = static_cast<double>(tokens) * groups_of_a_token(nodes, work.experts, work.top_k) / nodes;
  ExchangeWork exchange;
  exchange.collective = Collective::AllToAll;
  exchange.message = static_cast<double>(copies) * kernel.row;
  exchange.to_nodes = (nodes - 1) * relayed_bytes(rows_of_node, kernel.row, to_owners, top_k, 1);
  exchange.in_node = (on_node - 1) * relayed_bytes(nodes * rows_of_rank, kernel.row, to_owners, top_k, nodes);
  return duration_of(relay_cost(costs, exchange, place, kernel));
}

}  // namespace

void require_places(int ranks, const Cluster& cluster) {
  const int node = cluster.gpus_per_node;
  if (node % ranks != 0 && ranks % node != 0)
    throw InputError(fmt::format("{} ranks on nodes of {} GPUs, expected a number that divides {}, or a multiple of it",
                                 ranks, node, node));
}

Seconds operator_seconds(const OperatorWork& work, const Cluster& cluster, const Calibration& costs, bool sustained) {
  if (computes(work.shape.kind)) return kernel_seconds(work, costs, sustained);
  const GroupPlace place = place_of_ranks(work.ranks, cluster);
  return is_collective(work.shape.kind) ? collective_seconds(work, place, costs) : relay_seconds(work, place, costs);
}

}  // namespace dovetail::bench
