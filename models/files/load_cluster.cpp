// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "models/files/input_file.hpp"
#include "models/files/load_network.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {
namespace {

void read_defaults(const JsonReader& json, WorkloadDefaults& defaults) {
  read_fields(json, defaults);
  if (const auto layers = json.find("layers"))
    for (const auto& [model, count] : layers->members()) defaults.layers[model] = count.integer(1);
}

}  // namespace

Cluster read_cluster(const JsonReader& json, WorkloadDefaults& defaults) {
  Cluster cluster = fields_from<Cluster>(json);
  if (cluster.gpus() > most_gpus)
    json.fail("nodes", fmt::format("{} nodes of {} GPUs are {} GPUs, expected at most {}", cluster.nodes,
                                   cluster.gpus_per_node, cluster.gpus(), most_gpus));
  // A link that a setting has put in the place of NVSwitch adds nothing up.
  cluster.nvls = cluster.nvls && cluster.node_link == NodeLink::NvSwitch;
  if (cluster.network) require_network(json.at("network"), cluster);
  if (const auto given = json.find("default_workload")) read_defaults(*given, defaults);
  return cluster;
}

Cluster load_cluster(const std::string& name, WorkloadDefaults& defaults, FilesRead& files) {
  const JsonFile file = open_input(cluster_input, name, {}, files);
  Cluster cluster = read_cluster(JsonReader(file), defaults);
  cluster.calibration = beside(file.name(), cluster.calibration);
  return cluster;
}

}  // namespace dovetail
