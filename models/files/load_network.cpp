// SPDX-License-Identifier: Apache-2.0
#include "models/files/load_network.hpp"

#include <fmt/format.h>

namespace dovetail {
namespace {

// Switches hold whole switches of the level below, and nodes fill them.
void require_fabric(const JsonReader& json, const Cluster& cluster) {
  int below = 0;  // 0: there is no level before this one
  for (const JsonReader& item : json.elements()) {
    const int nodes = item.integer("nodes", 1);
    if (below > 0 && (nodes % below != 0 || nodes == below))
      item.fail("nodes", fmt::format("{}, expected a multiple of the {} nodes of the level before it", nodes, below));
    if (nodes < cluster.nodes && cluster.nodes % nodes != 0)
      item.fail("nodes", fmt::format("{} nodes do not fill switches of {}, expected a divisor or at least as many",
                                     cluster.nodes, nodes));
    below = nodes;
  }
}

void require_pcie(const JsonReader& json, const Cluster& cluster) {
  const bool is_node_link = cluster.node_link == NodeLink::Pcie;
  if (!is_node_link) (void)json.at("bandwidth");
  if (is_node_link && json.has("bandwidth"))
    json.fail("bandwidth", "given twice, expected node_bandwidth alone where node_link is pcie");
  if (const int shared = cluster.network->gpus_per_switch; cluster.gpus_per_node % shared != 0)
    json.fail("gpus_per_switch",
              fmt::format("{}, expected a divisor of the {} GPUs of a node", shared, cluster.gpus_per_node));
}

void require_numbers(const JsonReader& json, std::string_view key, int count) {
  if (const auto list = json.find(key))
    for (const JsonReader& item : list->elements()) (void)item.integer(0, count - 1);
}

void require_slow(const JsonReader& json, const Cluster& cluster) {
  for (const JsonReader& item : json.elements()) {
    require_numbers(item, "nodes", cluster.nodes);
    require_numbers(item, "gpus", cluster.gpus());
    const auto none = [&](std::string_view key) { return !item.has(key) || item.at(key).elements().empty(); };
    if (none("nodes") && none("gpus")) item.fail("nothing is slow, expected \"nodes\" or \"gpus\"");
  }
}

void require_nics(const JsonReader& json, const Cluster& c) {
  if (c.gpus_per_node % c.nics_per_node != 0 && c.nics_per_node % c.gpus_per_node != 0)
    json.fail(
        fmt::format("{} network cards for {} GPUs in a node, expected as many for each GPU, or GPUs for each card",
                    c.nics_per_node, c.gpus_per_node));
}

}  // namespace

void require_network(const JsonReader& json, const Cluster& cluster) {
  const NetworkDescription& network = *cluster.network;
  require_nics(json, cluster);
  if (const auto fabric = json.find("fabric")) require_fabric(*fabric, cluster);
  if (network.rails && network.fabric.empty())
    json.fail("rails", "rails without switches, expected \"fabric\" with at least one level");
  if (const auto pcie = json.find("pcie")) require_pcie(*pcie, cluster);
  if (cluster.node_link == NodeLink::NvLinkPairs) {
    if (cluster.gpus_per_node % 2 != 0)
      json.fail(fmt::format("pairs of {} GPUs, expected an even number in a node", cluster.gpus_per_node));
    if (network.pcie_bandwidth <= BytesPerSecond(0))
      json.fail("NVLink joins pairs only, expected \"pcie\" for the others");
  }
  if (const auto slow = json.find("slow")) require_slow(*slow, cluster);
}

}  // namespace dovetail
