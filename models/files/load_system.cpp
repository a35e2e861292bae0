#include <nlohmann/json.hpp>

#include "models/files/input_file.hpp"
#include "models/files/read_parts.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail {
namespace {

GradientSlice read_slice(const JsonReader& json) {
  return {json.enumeration("window", window_names), json.integer_or("layer", 0), json.long_integer("elements", 1)};
}

// One `set` for each type that a knob can have.
class KnobReader {
 public:
  explicit KnobReader(const JsonReader& json) : json_(json) {}

  void set(std::string_view key, int& knob) const { knob = json_.integer_or(key, knob); }
  void set(std::string_view key, std::int64_t& knob) const {
    if (json_.has(key)) knob = json_.long_integer(key, 1);
  }
  void set(std::string_view key, bool& knob) const { knob = json_.boolean_or(key, knob); }
  template <class Table, class Enum>
  void set(std::string_view key, const Table& names, Enum& knob) const {
    knob = json_.enumeration_or(key, names, knob);
  }
  template <class T, class Read>
  void set_list(std::string_view key, std::vector<T>& knob, Read read) const {
    if (!json_.has(key)) return;
    knob.clear();
    for (const JsonReader& each : json_.at(key).elements()) knob.push_back(read(each));
  }

 private:
  const JsonReader& json_;
};

}  // namespace

void read_plan(const JsonReader& json, Plan& plan) {
  // Taken apart by a structured binding so that a knob added to Plan does not compile until it is read here.
  auto& [forward_degree, backward_degree, backward_degrees, scope, delay_weight_gradient, split, peer_group, order,
         comm_streams, all_to_all, all_to_all_levels, all_to_all_implementation, protocol, dispatch_wire, combine_wire,
         encoding, grad_sync, gradient_chunk_bytes, gradient_slices, restore, buffers, expert_sharding,
         sharding_repeats, shadowed_experts, layout, row_tile, expert_kernel, shared_experts, host_sync,
         pipeline_schedule, virtual_stages, micro_batches, recompute, zero] = plan;
  const auto integer = [](int least) { return [least](const JsonReader& each) { return each.integer(least); }; };
  const KnobReader knobs(json);
  knobs.set("forward_degree", forward_degree);
  knobs.set("backward_degree", backward_degree);
  knobs.set_list("backward_degrees", backward_degrees, integer(1));
  knobs.set("scope", scope_names, scope);
  knobs.set("delay_weight_gradient", delay_weight_gradient);
  knobs.set("split", split_names, split);
  knobs.set("peer_group", peer_group);
  knobs.set("order", order_names, order);
  knobs.set("comm_streams", comm_streams_names, comm_streams);
  knobs.set("all_to_all", all_to_all_names, all_to_all);
  knobs.set_list("all_to_all_levels", all_to_all_levels, integer(1));
  knobs.set("all_to_all_implementation", all_to_all_implementation_names, all_to_all_implementation);
  knobs.set("protocol", protocol_names, protocol);
  knobs.set("dispatch_wire", wire_names, dispatch_wire);
  knobs.set("combine_wire", wire_names, combine_wire);
  knobs.set("encoding", encoding_names, encoding);
  knobs.set("grad_sync", grad_sync_names, grad_sync);
  knobs.set("gradient_chunk_bytes", gradient_chunk_bytes);
  knobs.set_list("gradient_slices", gradient_slices, read_slice);
  knobs.set("restore", restore_names, restore);
  knobs.set("buffers", buffers_names, buffers);
  knobs.set("expert_sharding", expert_sharding_names, expert_sharding);
  knobs.set("sharding_repeats", sharding_repeats);
  knobs.set_list("shadowed_experts", shadowed_experts, integer(0));
  knobs.set("layout", layout_names, layout);
  knobs.set("row_tile", row_tile);
  knobs.set("expert_kernel", expert_kernel_names, expert_kernel);
  knobs.set("shared_experts", shared_experts_names, shared_experts);
  knobs.set("host_sync", host_sync);
  knobs.set("pipeline_schedule", pipeline_schedule_names, pipeline_schedule);
  knobs.set("virtual_stages", virtual_stages);
  knobs.set("micro_batches", micro_batches);
  knobs.set("recompute", recompute_names, recompute);
  knobs.set("zero", zero);
}

System read_system(const JsonReader& json) {
  System system;
  system.name = json.string("name");
  system.description = json.string_or("description", "");
  system.source = json.string_or("source", "");
  read_plan(json.at("plan"), system.plan);
  const JsonReader planner = json.at("planner");
  system.planner.name = planner.string("name");
  system.planner.tie_degrees = planner.boolean_or("tie_degrees", true);
  KnobReader(planner).set_list("degrees", system.planner.degrees,
                               [](const JsonReader& each) { return each.integer(1); });
  return system;
}

System load_system(const std::string& name, FilesRead& files) {
  return read_system(JsonReader(open_input(system_input, name, {}, files)));
}

Plan load_plan(const std::string& path, FilesRead& files) {
  const JsonFile file = JsonFile::read(path);
  files[path] = file.text();
  shipped_schema("plan").validate(file);
  Plan plan;
  read_plan(JsonReader(file), plan);
  return plan;
}

}  // namespace dovetail
