// SPDX-License-Identifier: Apache-2.0
#include "models/files/load_network.hpp"

#include <fmt/format.h>

#include "models/base/names.hpp"

namespace dovetail {
namespace {

// Switches hold whole switches of the level below, and nodes fill them.
std::vector<FabricLevel> read_fabric(const JsonReader& json, const Cluster& cluster) {
  std::vector<FabricLevel> fabric;
  for (const JsonReader& item : json.elements()) {
    FabricLevel level;
    level.name = item.string("name");
    level.nodes = item.integer("nodes", 1);
    level.oversubscription = item.number_or("oversubscription", 1, 1);
    const int below = fabric.empty() ? 1 : fabric.back().nodes;
    if (level.nodes % below != 0 || (!fabric.empty() && level.nodes == below))
      item.fail("nodes",
                fmt::format("{}, expected a multiple of the {} nodes of the level before it", level.nodes, below));
    if (level.nodes < cluster.nodes && cluster.nodes % level.nodes != 0)
      item.fail("nodes", fmt::format("{} nodes do not fill switches of {}, expected a divisor or at least as many",
                                     cluster.nodes, level.nodes));
    fabric.push_back(level);
  }
  return fabric;
}

void read_pcie(const JsonReader& json, const Cluster& cluster, NetworkDescription& network) {
  if (cluster.node_link != NodeLink::Pcie)
    network.pcie_bandwidth = json.quantity<BytesPerSecond>("bandwidth", Sign::Positive);
  else if (json.has("bandwidth"))
    json.fail("bandwidth", "given twice, expected node_bandwidth alone where node_link is pcie");
  network.gpus_per_switch = json.integer_or("gpus_per_switch", 1, 1);
  if (cluster.gpus_per_node % network.gpus_per_switch != 0)
    json.fail("gpus_per_switch", fmt::format("{}, expected a divisor of the {} GPUs of a node", network.gpus_per_switch,
                                             cluster.gpus_per_node));
  network.switch_bandwidth =
      json.quantity_or<BytesPerSecond>("switch_bandwidth", network.switch_bandwidth, Sign::Positive);
}

std::vector<int> read_numbers(const JsonReader& json, std::string_view key, int count) {
  std::vector<int> numbers;
  if (const auto list = json.find(key))
    for (const JsonReader& item : list->elements()) numbers.push_back(item.integer(0, count - 1));
  return numbers;
}

SlowPart read_slow(const JsonReader& json, const Cluster& cluster) {
  SlowPart part;
  part.nodes = read_numbers(json, "nodes", cluster.nodes);
  part.gpus = read_numbers(json, "gpus", cluster.gpus());
  if (part.nodes.empty() && part.gpus.empty()) json.fail("nothing is slow, expected \"nodes\" or \"gpus\"");
  for (auto [key, speed] : {std::pair{"compute_speed", &part.compute_speed},
                            {"link_speed", &part.link_speed},
                            {"nic_speed", &part.nic_speed}}) {
    *speed = json.number_or(key, 1, least_speed, 1);
  }
  return part;
}

void require_nics(const JsonReader& json, const Cluster& c) {
  if (c.gpus_per_node % c.nics_per_node != 0 && c.nics_per_node % c.gpus_per_node != 0)
    json.fail(
        fmt::format("{} network cards for {} GPUs in a node, expected as many for each GPU, or GPUs for each card",
                    c.nics_per_node, c.gpus_per_node));
}

}  // namespace

NetworkDescription read_network(const JsonReader& json, const Cluster& cluster) {
  NetworkDescription network;
  require_nics(json, cluster);
  if (const auto fabric = json.find("fabric")) network.fabric = read_fabric(*fabric, cluster);
  network.rails = json.boolean_or("rails", false);
  if (network.rails && network.fabric.empty())
    json.fail("rails", "rails without switches, expected \"fabric\" with at least one level");
  if (const auto pcie = json.find("pcie")) read_pcie(*pcie, cluster, network);
  if (cluster.node_link == NodeLink::NvLinkPairs) {
    if (cluster.gpus_per_node % 2 != 0)
      json.fail(fmt::format("pairs of {} GPUs, expected an even number in a node", cluster.gpus_per_node));
    if (network.pcie_bandwidth <= BytesPerSecond(0))
      json.fail("NVLink joins pairs only, expected \"pcie\" for the others");
  }
  if (const auto slow = json.find("slow"))
    for (const JsonReader& item : slow->elements()) network.slow.push_back(read_slow(item, cluster));
  return network;
}

}  // namespace dovetail
