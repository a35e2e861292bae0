// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "models/question/fields.hpp"
#include "models/question/peak_fields.hpp"

namespace dovetail {
namespace {

constexpr int most_nodes = 1'000'000, most_in_node = 1024;

const FieldTable& pcie_fields() {
  static const FieldTable table = FieldTable::of<NetworkDescription>(
      "PCIe", "The PCIe tree of a node.",
      {
          field::quantity<&NetworkDescription::pcie_bandwidth>(
              "bandwidth",
              "Per GPU and direction; of `node_link` `pcie` it is `node_bandwidth`. Needed with `nvlink_pairs`.")
              .else_taken("PCIe is not described"),
          field::whole<&NetworkDescription::gpus_per_switch>(
              "gpus_per_switch", 1, most_in_node, "GPUs that share a switch's link to the root; 1: no switches."),
          field::quantity<&NetworkDescription::switch_bandwidth>("switch_bandwidth",
                                                                 "Bandwidth of that link, per direction.")
              .else_taken("a GPU's"),
      });
  return table;
}

// Results have the fields of `pcie` beside the others.
Field beside_others(Field field) {
  field.place = FieldPlace::Results;
  return field;
}

Field field_of_defaults(const Field& of_workload) {
  Field field = of_workload;
  field.help = fmt::format("As `workload.{}`.", field.name);
  field.otherwise = "as without a cluster's";
  field.givers.clear();
  field.of_experts = false;
  field.get = nullptr;
  field.set = [name = field.name](void* owner, const FieldValue& value) {
    static_cast<WorkloadDefaults*>(owner)->workload[name] = value;
  };
  return field;
}

Field usual_groups() {
  Field field =
      field::described("groups", ChoiceField{{"least", "node"}},
                       "The groups that nobody gives. `node`: `mp` and `esp` are the GPUs of a node, as far as the "
                       "model's sizes allow, as on FSMoE's testbeds. `least`: the least `esp`, and then the least "
                       "`mp`, with which weights, gradients and Adam's states of the whole model (18 bytes a "
                       "parameter) take at most two thirds of the memory.");
  field.get = [](const void* owner) -> FieldValue {
    return std::string(static_cast<const WorkloadDefaults*>(owner)->groups_fill_nodes ? "node" : "least");
  };
  field.set = [](void* owner, const FieldValue& value) {
    static_cast<WorkloadDefaults*>(owner)->groups_fill_nodes = std::get<std::string>(value) == "node";
  };
  return field;
}

std::vector<Field> cluster_names() {
  return {
      field::text<&Cluster::name>("name", {}, "Shown in reports; of a shipped file, its file name.").must(),
      field::text<&Cluster::description>("description", {.may_be_empty = true}, "One line for people."),
      field::text<&Cluster::source>("source", {.may_be_empty = true}, "Where the numbers come from."),
      field::whole<&Cluster::nodes>("nodes", 1, most_nodes, "Number of equal nodes.").must(),
      field::whole<&Cluster::gpus_per_node>("gpus_per_node", 1, most_in_node, "Number of equal GPUs in each node.")
          .must(),
      field::part<&Cluster::device>("device", "The GPU, from its datasheet; all are equal.").must(),
  };
}

std::vector<Field> cluster_links() {
  return {
      field::choice<&Cluster::node_link>(
          "node_link", node_link_names,
          "What joins the GPUs of a node: `nvswitch` (joins all), `nvlink_pairs` (bridges "
          "between two, PCIe beyond) or `pcie`.")
          .must(),
      field::quantity<&Cluster::node_bandwidth>("node_bandwidth", "Bandwidth of that link, per GPU and direction.")
          .must(),
      field::whole<&Cluster::nics_per_node>("nics_per_node", 1, most_in_node,
                                            "Network cards of a node. A card serves `gpus_per_node` / `nics_per_node` "
                                            "neighbouring GPUs. Several cards of one GPU count as one.")
          .must(),
      field::quantity<&Cluster::nic_bandwidth>("nic_bandwidth", "Bandwidth per card and direction.").must(),
      field::text<&Cluster::calibration>(
          "calibration", {},
          "Costs to use unless others are asked for: a name in `calibrations/`, or a path from "
          "this file's folder.")
          .else_taken("`dgx-h100`, adapted"),
      field::flag<&Cluster::nvls>(
          "nvls",
          "Whether the NVSwitch adds up what it passes on (NVLink SHARP), as from Hopper on. "
          "All-reduces on two or three nodes then send less between them (see Groups in other places). "
          "It says nothing of other links.")
          .unless_usual(),
      field::part<&Cluster::network>(
          "network", "Links and who shares them; see below. Without it the calibration's times alone count.")
          .else_taken("none"),
      field::described("default_workload", PartField{fields_of<WorkloadDefaults>},
                       "What runs on this cluster use unless told otherwise.")
          .only_in(FieldPlace::Inputs)
          .else_taken("nothing"),
  };
}

}  // namespace

template <>
const FieldTable& fields_of<Device>() {
  static const FieldTable table = FieldTable::of<Device>(
      "Device", "A GPU.",
      {
          field::text<&Device::name>("name", {}, "Product name.").must(),
          field::quantity<&Device::memory>("memory", "Device memory. Vendors' \"48 GB\" are GiB.").must(),
          field::quantity<&Device::memory_bandwidth>("memory_bandwidth", "Bandwidth of device memory.").must(),
          field::inside<Device>("peak", peak_fields<Device>,
                                "Rates by number format. Products in fp8 need that of fp8.")
              .as_result("peak_flops_per_s")
              .else_taken("none is known"),
          field::whole<&Device::multiprocessors>("multiprocessors", 1, 65'536,
                                                 "How many it has, which `plan.comm_sms` shares out.")
              .else_taken("not known")
              .written_where<Device>([](const Device& d) { return d.multiprocessors > 0; }),
          field::quantity<&Device::l2_cache>(
              "l2_cache", "The cache that all multiprocessors share, from its datasheet, whose MB are MiB.")
              .else_taken("not known")
              .written_where<Device>([](const Device& d) { return d.l2_cache > Bytes(0); }),
      });
  return table;
}

template <>
const FieldTable& fields_of<FabricLevel>() {
  static const FieldTable table = FieldTable::of<FabricLevel>(
      "Level", "A level of switches between nodes.",
      {
          field::text<&FabricLevel::name>("name", {}, "Name of the level, such as leaf.").must(),
          field::whole<&FabricLevel::nodes>("nodes", 1, most_nodes, "Nodes below each switch.").must(),
          field::number<&FabricLevel::oversubscription>("oversubscription", {.least = 1},
                                                        "What comes from below, over what its uplinks carry.")
              .in("ratio"),
      });
  return table;
}

template <>
const FieldTable& fields_of<SlowPart>() {
  constexpr NumberField speed{.least = least_speed, .most = 1};
  static const FieldTable table = FieldTable::of<SlowPart>(
      "Slow", "Nodes and GPUs that are slower than the others.",
      {
          field::wholes<&SlowPart::nodes>("nodes", 0, most_nodes, "Numbers of nodes, from 0.").else_taken("none"),
          field::wholes<&SlowPart::gpus>("gpus", 0, most_gpus, "Numbers of GPUs of the cluster, from 0.")
              .else_taken("none"),
          field::number<&SlowPart::compute_speed>("compute_speed", speed, "The speed that their kernels keep.")
              .in("share"),
          field::number<&SlowPart::link_speed>("link_speed", speed, "Of their links inside the node.").in("share"),
          field::number<&SlowPart::nic_speed>("nic_speed", speed, "Of the network cards that serve them.").in("share"),
      });
  return table;
}

template <>
const FieldTable& fields_of<NetworkDescription>() {
  static const FieldTable table = [] {
    std::vector<Field> fields{
        field::parts<&NetworkDescription::fabric>(
            "fabric",
            "Levels of switches between nodes, innermost first. Switches of the last "
            "level meet at an ideal one. Parallel cables count as one link."),
        field::flag<&NetworkDescription::rails>(
            "rails",
            "Whether switch r of the first level joins network cards r of its nodes. Other "
            "pairs meet above it."),
        field::inside<NetworkDescription>("pcie", pcie_fields,
                                          "The PCIe tree of a node. Traffic to a network card crosses it.")
            .only_in(FieldPlace::Inputs)
            .else_taken("not described"),
    };
    for (const Field& field : pcie_fields().fields) fields.push_back(beside_others(field));
    fields[3].result_name = "pcie_bandwidth_bytes_per_s";
    std::swap(fields[3], fields[4]);
    fields.push_back(
        field::parts<&NetworkDescription::slow>("slow", "Nodes and GPUs that are slower than the others."));
    return FieldTable::of<NetworkDescription>("Network", "Which links there are and who shares them.",
                                              std::move(fields));
  }();
  return table;
}

template <>
const FieldTable& fields_of<WorkloadDefaults>() {
  static const FieldTable table = [] {
    std::vector<Field> fields{
        field::text<&WorkloadDefaults::model>("model", {}, "Name of the model, or a path from here.")
            .else_taken("none")};
    for (const Field& field : fields_of<Workload>().fields)
      if (std::ranges::find(field.givers, FieldGiver::Cluster) != field.givers.end() && field.name != "layers")
        fields.push_back(field_of_defaults(field));
    fields.push_back(usual_groups());
    fields.push_back(field::described("layers", OtherField{"#/definitions/layers_by_model", "object"},
                                      "How many layers of a larger model to train, by the model's name.")
                         .else_taken("all"));
    fields.push_back(field::text<&WorkloadDefaults::layers_reason>("layers_reason", {},
                                                                   "The reason; it is shown whenever layers are cut.")
                         .else_taken("none"));
    return FieldTable::of<WorkloadDefaults>("Default workload", "What runs on a cluster use unless told otherwise.",
                                            std::move(fields));
  }();
  return table;
}

template <>
const FieldTable& fields_of<Cluster>() {
  static const FieldTable table = [] {
    std::vector<Field> fields = cluster_names();
    std::ranges::move(cluster_links(), std::back_inserter(fields));
    return FieldTable::of<Cluster>("Cluster", "Equal nodes of equal GPUs, the links inside a node and between nodes.",
                                   std::move(fields));
  }();
  return table;
}

Workload workload_of(const WorkloadDefaults& defaults) {
  Workload w;
  for (const auto& [name, value] : defaults.workload) fields_of<Workload>().find(name)->set(&w, value);
  return w;
}

}  // namespace dovetail
