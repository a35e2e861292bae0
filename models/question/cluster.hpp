// SPDX-License-Identifier: Apache-2.0
// A described cluster: equal nodes of equal GPUs, the links inside a node and between nodes.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/units.hpp"

namespace dovetail {

struct Device {
  std::string name;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  std::map<DType, FlopsPerSecond> peak;  // datasheet rates, by number format
  int multiprocessors = 0;               // 0: not known
  Bytes l2_cache = {};                   // that all multiprocessors share; 0: not known
};

enum class NodeLink { NvSwitch, NvLinkPairs, Pcie };
inline constexpr std::array<std::pair<std::string_view, NodeLink>, 3> node_link_names{
    {{"nvswitch", NodeLink::NvSwitch}, {"nvlink_pairs", NodeLink::NvLinkPairs}, {"pcie", NodeLink::Pcie}}};

// A tier of switches between nodes. Its uplinks carry 1 / oversubscription of what is below it.
struct FabricLevel {
  std::string name;
  int nodes = 1;  // below one of its switches
  double oversubscription = 1;
};

inline constexpr double least_speed = 1e-6;  // where 1 is full speed: below it a step would hardly end

// GPUs that are slower than the others, with their links: 1 is full speed.
struct SlowPart {
  std::vector<int> nodes, gpus;  // numbers, from 0: whole nodes, and single GPUs of the cluster
  double compute_speed = 1;
  double link_speed = 1;  // inside the node
  double nic_speed = 1;   // of the network card that serves them
};

// The links of a cluster and who shares them (see network.hpp). By default every GPU has a root complex of its own, and
// all nodes are at one non-blocking switch.
struct NetworkDescription {
  std::vector<FabricLevel> fabric;  // innermost first; an ideal switch joins those of the last
  bool rails = false;               // switch r of the first level joins network cards r of its nodes
  int gpus_per_switch = 1;          // of a node's PCIe tree; 1: none between GPU and root
  BytesPerSecond pcie_bandwidth;    // per GPU and direction, beside NVLink; 0: PCIe is not described
  BytesPerSecond switch_bandwidth;  // from a PCIe switch to the root, per direction; 0: that of a GPU
  std::vector<SlowPart> slow;
};

struct Cluster {
  std::string name;
  std::string description;
  std::string source;
  int nodes = 0;
  int gpus_per_node = 0;
  Device device;
  NodeLink node_link = NodeLink::Pcie;
  BytesPerSecond node_bandwidth;  // per GPU and direction, inside the node
  bool nvls = false;              // the NVSwitch adds up what it passes on (NVLink SHARP), as from Hopper on
  int nics_per_node = 0;
  BytesPerSecond nic_bandwidth;  // per NIC and direction
  std::string calibration;       // name of its default calibration
  std::optional<NetworkDescription> network;

  int gpus() const { return nodes * gpus_per_node; }
};

}  // namespace dovetail
