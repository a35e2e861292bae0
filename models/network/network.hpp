// SPDX-License-Identifier: Apache-2.0
// The links of a cluster with a described network, and which of them lie between two GPUs. GPU g is rank g. Parallel
// cables between the same two switches count as one link: traffic is taken to spread over them evenly.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "models/question/cluster.hpp"

namespace dovetail {

enum class TierKind { Gpu, Switch, Nic, Fabric };  // links of a GPU, of a PCIe switch, ...

// Links of one kind; each GPU uses one of them, in two directions.
struct LinkTier {
  TierKind kind = TierKind::Gpu;
  std::string name;          // "nvlink", "pcie", "switch", "nic", or that of a fabric level
  BytesPerSecond bandwidth;  // of one link and direction, at full speed
  int block = 1;             // GPUs of a node, or of the nodes below a switch
  int inner = 1;             // consecutive GPUs of a node that use the same link of their block
  int node = 1;              // GPUs of a node
  int links_per_block() const { return node / inner; }
  int link_of(int gpu) const { return gpu / block * links_per_block() + gpu % node / inner; }
  int gpus_per_link() const { return block / links_per_block(); }
};

// Bits of tiers.
using TierMask = unsigned;

// The tiers of a cluster, from the GPU outwards. A route goes up the tiers that it needs on the sender's side and down
// the same ones on the receiver's.
class Topology {
 public:
  explicit Topology(const Cluster& cluster);  // that has a described network

  const std::vector<LinkTier>& tiers() const { return tiers_; }
  TierMask between(int from_gpu, int to_gpu) const;  // 0: the same GPU
  // Whether any message between GPUs passes the link from a PCIe switch to its root.
  bool crosses_switches() const;
  int gpus() const { return gpus_; }
  int gpus_per_node() const { return gpus_per_node_; }

 private:
  void add(TierKind kind, std::string name, BytesPerSecond bandwidth, int block, int inner);
  void add_fabric(const Cluster& cluster);
  TierMask inside(int from, int to) const;

  std::vector<LinkTier> tiers_;
  TierMask nvlink_ = 0, pcie_ = 0, switch_ = 0;  // bits of tiers; 0: there is none
  TierMask to_nic_ = 0;                          // tiers from a GPU to the network
  int nvlink_gpus_ = 1;                          // that NVLink joins: those of a node, or 2
  std::size_t first_fabric_ = 0;
  int gpus_ = 0, gpus_per_node_ = 1;
};

// Speeds of a GPU and of its links, 1 unless the description says otherwise.
struct GpuSpeed {
  double compute = 1, link = 1, nic = 1;
  friend bool operator==(const GpuSpeed&, const GpuSpeed&) = default;
  friend auto operator<=>(const GpuSpeed&, const GpuSpeed&) = default;
};
// The speed of each GPU; empty if all have full speed. The NIC of one GPU is as slow as that of any other that shares
// it.
std::vector<GpuSpeed> gpu_speeds(const Cluster& cluster);
// The speed of a link of this tier, which follows from the speed of the GPUs that use it.
double speed_of(const LinkTier& tier, const GpuSpeed& gpu);

struct Link {
  std::string name;  // "nic 3 up"
  BytesPerSecond bandwidth;
};

// Every link by itself, both directions.
class Network {
 public:
  explicit Network(const Cluster& cluster);
  std::span<const Link> links() const { return links_; }
  // Appends the links from one GPU to another in order of travel. from != to.
  void route(int from_gpu, int to_gpu, std::vector<int>& links) const;
  const Topology& topology() const { return topology_; }

 private:
  Topology topology_;
  std::vector<Link> links_;
  std::vector<int> first_;  // by tier: its links are up, down, up, ... from here
};

}  // namespace dovetail
