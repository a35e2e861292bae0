// A described cluster: equal nodes of equal GPUs, the links inside a node and between nodes.
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "models/dtype.hpp"
#include "models/units.hpp"

namespace dovetail {

struct Device {
  std::string name;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  std::map<DType, FlopsPerSecond> peak;  // datasheet rates, by number format
};

enum class NodeLink { NvSwitch, NvLinkPairs, Pcie };
inline constexpr std::array<std::pair<std::string_view, NodeLink>, 3> node_link_names{
    {{"nvswitch", NodeLink::NvSwitch}, {"nvlink_pairs", NodeLink::NvLinkPairs}, {"pcie", NodeLink::Pcie}}};

struct Cluster {
  std::string name;
  std::string description;
  std::string source;
  int nodes = 0;
  int gpus_per_node = 0;
  Device device;
  NodeLink node_link = NodeLink::Pcie;
  BytesPerSecond node_bandwidth;  // per GPU and direction, inside the node
  int nics_per_node = 0;
  BytesPerSecond nic_bandwidth;  // per NIC and direction
  std::string calibration;       // name of its default calibration

  int gpus() const { return nodes * gpus_per_node; }
};

}  // namespace dovetail
