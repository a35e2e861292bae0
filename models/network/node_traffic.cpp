// SPDX-License-Identifier: Apache-2.0
#include "models/network/node_traffic.hpp"

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr double up_and_down = 2;
constexpr BytesPerSecond tree_channel(23.6e9);  // perChMaxTreeBws of Ampere on two nodes

}  // namespace

double ring_traffic(Collective collective, double ranks) {
  switch (collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return 1 - 1 / ranks;
    case Collective::AllReduce:
      return 2 * (1 - 1 / ranks);
    default:  // the last rank of a broadcast passes nothing on, which is left out
      return 1;
  }
}

double least_of_trees(const Cluster& cluster) {
  if (cluster.nvls) return 0;
  return cluster.nic_bandwidth > BytesPerSecond(0) ? up_and_down * (cluster.nic_bandwidth / tree_channel) : up_and_down;
}

NodeTraffic node_traffic(Collective collective, double nodes, double members, double least_of_trees) {
  check(collective != Collective::AllToAll && collective != Collective::Send, "messages that are known");
  const double ring = ring_traffic(collective, nodes * members);
  const double trees = std::max(std::min(up_and_down, nodes / 2), least_of_trees);
  if (collective != Collective::AllReduce || ring <= trees) return {Algorithm::Ring, ring};
  return {Algorithm::Trees, trees};
}

double share_of_ring(Collective collective, const Parallelism& parallelism, GroupKind kind, const Cluster& cluster) {
  const auto [ranks, nodes] = group_shape(parallelism, kind, cluster);
  if (nodes == 1) return 1;
  const double members = static_cast<double>(ranks) / nodes;
  return node_traffic(collective, nodes, members, least_of_trees(cluster)).bytes / ring_traffic(collective, ranks);
}

}  // namespace dovetail
