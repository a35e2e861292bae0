// SPDX-License-Identifier: Apache-2.0
#include "models/network/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail {

Topology::Topology(const Cluster& cluster) : gpus_(cluster.gpus()), gpus_per_node_(cluster.gpus_per_node) {
  check(cluster.network.has_value(), "a cluster whose network is not described");
  const NetworkDescription& n = *cluster.network;
  const auto bit = [&] { return TierMask{1} << tiers_.size(); };
  if (cluster.node_link != NodeLink::Pcie) {
    nvlink_ = bit();
    nvlink_gpus_ = cluster.node_link == NodeLink::NvSwitch ? gpus_per_node_ : 2;
    add(TierKind::Gpu, "nvlink", cluster.node_bandwidth, gpus_per_node_, 1);
  }
  const bool own_switches = n.gpus_per_switch > 1 && n.gpus_per_switch < gpus_per_node_;
  const BytesPerSecond pcie = cluster.node_link == NodeLink::Pcie ? cluster.node_bandwidth : n.pcie_bandwidth;
  if (pcie > BytesPerSecond(0)) {
    pcie_ = bit();
    add(TierKind::Gpu, "pcie", pcie, gpus_per_node_, 1);
    if (own_switches) {
      switch_ = bit();
      add(TierKind::Switch, "switch", n.switch_bandwidth > BytesPerSecond(0) ? n.switch_bandwidth : pcie,
          gpus_per_node_, n.gpus_per_switch);
    }
  }
  const int gpus_per_nic = std::max(1, gpus_per_node_ / cluster.nics_per_node);
  const int nics_per_gpu = std::max(1, cluster.nics_per_node / gpus_per_node_);
  // A network card of one switch's GPUs is at that switch, one of more GPUs at the root.
  to_nic_ = pcie_ | (own_switches && gpus_per_nic > n.gpus_per_switch ? switch_ : 0) | bit();
  add(TierKind::Nic, "nic", cluster.nic_bandwidth * nics_per_gpu, gpus_per_node_, gpus_per_nic);
  first_fabric_ = tiers_.size();
  add_fabric(cluster);
}

// A level whose one switch would join all nodes has no uplinks, unless rails meet only above it.
void Topology::add_fabric(const Cluster& cluster) {
  const NetworkDescription& n = *cluster.network;
  BytesPerSecond below = tiers_.back().bandwidth * tiers_.back().links_per_block();  // of a node
  int nodes = 1;
  for (std::size_t i = 0; i < n.fabric.size(); ++i) {
    const FabricLevel& level = n.fabric[i];
    const bool rails = i == 0 && n.rails && tiers_[first_fabric_ - 1].links_per_block() > 1;
    if (level.nodes >= cluster.nodes && !rails) break;
    const int held = std::min(level.nodes, cluster.nodes);
    below = below * (static_cast<double>(held) / nodes / level.oversubscription);
    nodes = held;
    const int inner = rails ? tiers_[first_fabric_ - 1].inner : gpus_per_node_;
    const int switches = gpus_per_node_ / inner;
    add(TierKind::Fabric, level.name, below / switches, held * gpus_per_node_, inner);
  }
}

void Topology::add(TierKind kind, std::string name, BytesPerSecond bandwidth, int block, int inner) {
  tiers_.push_back({kind, std::move(name), bandwidth, block, inner, gpus_per_node_});
}

TierMask Topology::inside(int from, int to) const {
  if (nvlink_ != 0 && from / nvlink_gpus_ == to / nvlink_gpus_) return nvlink_;
  if (switch_ == 0) return pcie_;
  const LinkTier& tree = tiers_[nvlink_ == 0 ? 1 : 2];
  return tree.link_of(from) == tree.link_of(to) ? pcie_ : pcie_ | switch_;
}

bool Topology::crosses_switches() const {
  return switch_ != 0 && ((to_nic_ & switch_) != 0 || nvlink_ == 0 || nvlink_gpus_ < gpus_per_node_);
}

TierMask Topology::between(int from, int to) const {
  if (from == to) return 0;
  if (from / gpus_per_node_ == to / gpus_per_node_) return inside(from, to);
  TierMask mask = to_nic_;
  for (std::size_t i = first_fabric_; i < tiers_.size(); ++i) {
    if (tiers_[i].link_of(from) == tiers_[i].link_of(to)) break;
    mask |= TierMask{1} << i;
  }
  return mask;
}

std::vector<GpuSpeed> gpu_speeds(const Cluster& cluster) {
  if (!cluster.network || cluster.network->slow.empty()) return {};
  std::vector<GpuSpeed> speeds(static_cast<std::size_t>(cluster.gpus()));
  const int gpus_per_nic = std::max(1, cluster.gpus_per_node / cluster.nics_per_node);
  const auto slow_down = [&](int gpu, const SlowPart& part) {
    GpuSpeed& speed = speeds[static_cast<std::size_t>(gpu)];
    speed.compute = std::min(speed.compute, part.compute_speed);
    speed.link = std::min(speed.link, part.link_speed);
    const int local = gpu % cluster.gpus_per_node, first = gpu - local % gpus_per_nic;
    for (int g = first; g < first + gpus_per_nic; ++g) {
      double& nic = speeds[static_cast<std::size_t>(g)].nic;
      nic = std::min(nic, part.nic_speed);
    }
  };
  for (const SlowPart& part : cluster.network->slow) {
    for (int node : part.nodes)
      for (int i = 0; i < cluster.gpus_per_node; ++i) slow_down(node * cluster.gpus_per_node + i, part);
    for (int gpu : part.gpus) slow_down(gpu, part);
  }
  return speeds;
}

double speed_of(const LinkTier& tier, const GpuSpeed& gpu) {
  return tier.kind == TierKind::Nic ? gpu.nic : tier.kind == TierKind::Gpu ? gpu.link : 1;
}

Network::Network(const Cluster& cluster) : topology_(cluster) {
  const std::vector<GpuSpeed> speeds = gpu_speeds(cluster);
  for (const LinkTier& tier : topology_.tiers()) {
    first_.push_back(static_cast<int>(links_.size()));
    const int links = cluster.gpus() / tier.gpus_per_link();
    std::vector<double> speed(static_cast<std::size_t>(links), 1);
    for (std::size_t gpu = 0; gpu < speeds.size(); ++gpu)
      speed[static_cast<std::size_t>(tier.link_of(static_cast<int>(gpu)))] = speed_of(tier, speeds[gpu]);
    for (int i = 0; i < links; ++i)
      for (const char* direction : {"up", "down"})
        links_.push_back(
            {fmt::format("{} {} {}", tier.name, i, direction), tier.bandwidth * speed[static_cast<std::size_t>(i)]});
  }
}

void Network::route(int from, int to, std::vector<int>& links) const {
  check(from != to, "a route from a GPU to itself");
  const TierMask mask = topology_.between(from, to);
  const auto& tiers = topology_.tiers();
  for (std::size_t i = 0; i < tiers.size(); ++i)
    if ((mask >> i & 1) != 0) links.push_back(first_[i] + 2 * tiers[i].link_of(from));
  for (std::size_t i = tiers.size(); i-- > 0;)
    if ((mask >> i & 1) != 0) links.push_back(first_[i] + 2 * tiers[i].link_of(to) + 1);
}

}  // namespace dovetail
