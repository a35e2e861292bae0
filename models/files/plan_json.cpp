#include "models/files/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "models/base/names.hpp"

namespace dovetail {
namespace {

nlohmann::ordered_json slices_json(const std::vector<GradientSlice>& slices) {
  auto list = nlohmann::ordered_json::array();
  for (const GradientSlice& slice : slices)
    list.push_back(
        {{"window", name_in(window_names, slice.window)}, {"layer", slice.layer}, {"elements", slice.elements}});
  return list;
}

}  // namespace

nlohmann::ordered_json to_json(const Plan& plan) {
  // Taken apart by a structured binding so that a knob added to Plan does not compile until it is written here.
  const auto& [forward_degree, backward_degree, backward_degrees, scope, delay_weight_gradient, split, peer_group,
               order, comm_streams, all_to_all, all_to_all_levels, all_to_all_implementation, protocol, dispatch_wire,
               combine_wire, encoding, grad_sync, gradient_chunk_bytes, gradient_slices, restore, buffers,
               expert_sharding, sharding_repeats, shadowed_experts, layout, row_tile, expert_kernel, shared_experts,
               host_sync, pipeline_schedule, virtual_stages, micro_batches, recompute, zero] = plan;
  return {{"forward_degree", forward_degree},
          {"backward_degree", backward_degree},
          {"backward_degrees", backward_degrees},
          {"scope", name_in(scope_names, scope)},
          {"delay_weight_gradient", delay_weight_gradient},
          {"split", name_in(split_names, split)},
          {"peer_group", peer_group},
          {"order", name_in(order_names, order)},
          {"comm_streams", name_in(comm_streams_names, comm_streams)},
          {"all_to_all", name_in(all_to_all_names, all_to_all)},
          {"all_to_all_levels", all_to_all_levels},
          {"all_to_all_implementation", name_in(all_to_all_implementation_names, all_to_all_implementation)},
          {"protocol", name_in(protocol_names, protocol)},
          {"dispatch_wire", name_in(wire_names, dispatch_wire)},
          {"combine_wire", name_in(wire_names, combine_wire)},
          {"encoding", name_in(encoding_names, encoding)},
          {"grad_sync", name_in(grad_sync_names, grad_sync)},
          {"gradient_chunk_bytes", gradient_chunk_bytes},
          {"gradient_slices", slices_json(gradient_slices)},
          {"restore", name_in(restore_names, restore)},
          {"buffers", name_in(buffers_names, buffers)},
          {"expert_sharding", name_in(expert_sharding_names, expert_sharding)},
          {"sharding_repeats", sharding_repeats},
          {"shadowed_experts", shadowed_experts},
          {"layout", name_in(layout_names, layout)},
          {"row_tile", row_tile},
          {"expert_kernel", name_in(expert_kernel_names, expert_kernel)},
          {"shared_experts", name_in(shared_experts_names, shared_experts)},
          {"host_sync", host_sync},
          {"pipeline_schedule", name_in(pipeline_schedule_names, pipeline_schedule)},
          {"virtual_stages", virtual_stages},
          {"micro_batches", micro_batches},
          {"recompute", name_in(recompute_names, recompute)},
          {"zero", zero}};
}

}  // namespace dovetail
