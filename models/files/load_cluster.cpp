// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "models/files/input_file.hpp"
#include "models/files/load_network.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {
namespace {

constexpr int most_gpus = 1 << 20;

Device read_device(const JsonReader& json) {
  Device device;
  device.name = json.string("name");
  device.memory = json.quantity<Bytes>("memory", Sign::Positive);
  device.memory_bandwidth = json.quantity<BytesPerSecond>("memory_bandwidth", Sign::Positive);
  device.multiprocessors = json.integer_or("multiprocessors", 0);
  device.l2_cache = json.quantity_or("l2_cache", Bytes(0), Sign::Positive);
  if (const auto peak = json.find("peak"))
    for (const auto& [name, dtype] : dtype_names)
      if (peak->has(name)) device.peak[dtype] = peak->quantity<FlopsPerSecond>(name, Sign::Positive);
  return device;
}

WorkloadDefaults read_defaults(const JsonReader& json) {
  WorkloadDefaults defaults;
  defaults.model = json.string_or("model", "");
  if (json.has("batch")) defaults.batch = json.integer("batch", 1);
  if (json.has("sequence")) defaults.sequence = json.integer("sequence", 1);
  if (json.has("capacity_factor")) defaults.capacity_factor = json.number("capacity_factor");
  if (json.has("dtype")) defaults.dtype = json.enumeration("dtype", dtype_names);
  if (json.has("attention")) defaults.attention = json.enumeration("attention", attention_kernel_names);
  if (json.has("causal")) defaults.causal = json.boolean("causal");
  if (json.has("extent")) defaults.extent = json.enumeration("extent", extent_names);
  constexpr std::array<std::pair<std::string_view, bool>, 2> groups{{{"node", true}, {"least", false}}};
  defaults.groups_fill_nodes = json.enumeration_or("groups", groups, false);
  if (const auto layers = json.find("layers"))
    for (const auto& [model, count] : layers->members()) defaults.layers[model] = count.integer(1);
  defaults.layers_reason = json.string_or("layers_reason", "");
  return defaults;
}

}  // namespace

Cluster read_cluster(const JsonReader& json, WorkloadDefaults& defaults) {
  Cluster cluster;
  cluster.name = json.string("name");
  cluster.description = json.string_or("description", "");
  cluster.source = json.string_or("source", "");
  cluster.nodes = json.integer("nodes", 1);
  cluster.gpus_per_node = json.integer("gpus_per_node", 1);
  if (cluster.gpus() > most_gpus)
    json.fail("nodes", fmt::format("{} nodes of {} GPUs are {} GPUs, expected at most {}", cluster.nodes,
                                   cluster.gpus_per_node, cluster.gpus(), most_gpus));
  cluster.device = read_device(json.at("device"));
  cluster.node_link = json.enumeration("node_link", node_link_names);
  cluster.node_bandwidth = json.quantity<BytesPerSecond>("node_bandwidth", Sign::Positive);
  // A link that a setting has put in the place of NVSwitch adds nothing up.
  cluster.nvls = json.boolean_or("nvls", false) && cluster.node_link == NodeLink::NvSwitch;
  cluster.nics_per_node = json.integer("nics_per_node", 1);
  cluster.nic_bandwidth = json.quantity<BytesPerSecond>("nic_bandwidth", Sign::Positive);
  cluster.calibration = json.string_or("calibration", "");
  if (const auto network = json.find("network")) cluster.network = read_network(*network, cluster);
  if (const auto given = json.find("default_workload")) defaults = read_defaults(*given);
  return cluster;
}

Cluster load_cluster(const std::string& name, WorkloadDefaults& defaults, FilesRead& files) {
  const JsonFile file = open_input(cluster_input, name, {}, files);
  Cluster cluster = read_cluster(JsonReader(file), defaults);
  cluster.calibration = beside(file.name(), cluster.calibration);
  return cluster;
}

}  // namespace dovetail
