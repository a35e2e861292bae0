#include "models/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/errors.hpp"
#include "models/expert_sharding.hpp"
#include "models/names.hpp"
#include "models/volumes.hpp"

namespace dovetail {
namespace {

[[noreturn]] void refuse(std::string_view knob, const std::string& message) {
  throw InputError(Location{"", 0, 0, fmt::format("/plan/{}", knob)}, message);
}

// Refuses a value that no builder exists for yet.
template <class Table, class Enum>
void require_built(std::string_view knob, const Table& names, Enum value, std::initializer_list<Enum> built) {
  if (std::ranges::find(built, value) != built.end()) return;
  std::string list;
  for (Enum b : built) list += fmt::format("{}{}", list.empty() ? "" : ", ", name_in(names, b));
  refuse(knob, fmt::format("{} is not built yet; built: {}", name_in(names, value), list));
}

void require_value(std::string_view knob, int value, int built) {
  if (value != built) refuse(knob, fmt::format("{} is not built yet; built: {}", value, built));
}

void require_built_knobs(const Plan& p) {
  require_built("scope", scope_names, p.scope, {Scope::Layer, Scope::Moe});
  require_built("order", order_names, p.order, {Order::DispatchFirst});
  require_built("comm_streams", comm_streams_names, p.comm_streams, {CommStreams::One, CommStreams::InterIntra});
  require_built("all_to_all", all_to_all_names, p.all_to_all, {AllToAll::Linear});
  require_built("protocol", protocol_names, p.protocol, {Protocol::Simple});
  require_built("grad_sync", grad_sync_names, p.grad_sync,
                {GradSync::After, GradSync::WithDense, GradSync::Partitioned});
  require_built("restore", restore_names, p.restore, {Restore::Keep});
  require_built("buffers", buffers_names, p.buffers, {Buffers::PerChunk});
  require_built("all_to_all_implementation", all_to_all_implementation_names, p.all_to_all_implementation,
                {AllToAllImplementation::PointToPoint});
  require_built("dispatch_wire", wire_names, p.dispatch_wire, {Wire::Same});
  require_built("combine_wire", wire_names, p.combine_wire, {Wire::Same});
  require_built("encoding", encoding_names, p.encoding, {Encoding::Sparse});
  require_built("expert_kernel", expert_kernel_names, p.expert_kernel, {ExpertKernel::Batched});
  require_built("shared_experts", shared_experts_names, p.shared_experts, {SharedExperts::Serial});
  require_built("pipeline_schedule", pipeline_schedule_names, p.pipeline_schedule, {PipelineSchedule::Gpipe});
  require_built("recompute", recompute_names, p.recompute, {Recompute::None});
  if (p.delay_weight_gradient) refuse("delay_weight_gradient", "true is not built yet; built: false");
  if (p.host_sync) refuse("host_sync", "true is not built yet; built: false");
  if (!p.all_to_all_levels.empty()) refuse("all_to_all_levels", "levels are not built yet; built: none");
  require_value("virtual_stages", p.virtual_stages, 1);
  require_value("micro_batches", p.micro_batches, 1);
  require_value("zero", p.zero, 0);
}

void require_degree(std::string_view knob, int degree, const Plan& p, std::int64_t capacity) {
  if (degree < 1) refuse(knob, fmt::format("{}, expected at least 1", degree));
  if (degree > capacity)
    refuse(knob, fmt::format("{} chunks, but an expert takes only {} rows of each rank", degree, capacity));
  if (p.scope == Scope::Layer && degree > 1)
    refuse(knob, fmt::format("{} contradicts plan.scope layer, which overlaps nothing; expected 1", degree));
}

// Windows in the order in which the backward pass reaches them.
int window_order(const GradientSlice& slice, int layers) {
  if (slice.window == Window::Tail) return 2 * layers;
  return 2 * (layers - 1 - slice.layer) + (slice.window == Window::Dense ? 1 : 0);
}

}  // namespace

std::vector<GradientSlice> gradient_slices(const Plan& plan, int layers, std::int64_t elements_per_layer) {
  if (plan.grad_sync == GradSync::Partitioned) return plan.gradient_slices;
  std::vector<GradientSlice> slices;
  for (int layer = layers - 1; layer >= 0; --layer) {
    const bool beside_next = plan.grad_sync == GradSync::WithDense && layer > 0;
    slices.push_back({beside_next ? Window::Dense : Window::Tail, beside_next ? layer - 1 : 0, elements_per_layer});
  }
  return slices;
}

void validate(const Plan& p, const Experiment& e) {
  require_built_knobs(p);
  validate_sharding(p, e);
  const LayerVolumes v = layer_volumes(e);
  require_degree("forward_degree", p.forward_degree, p, v.capacity);
  require_degree("backward_degree", p.backward_degree, p, v.capacity);
  if (!p.backward_degrees.empty() && p.backward_degrees.size() != static_cast<std::size_t>(e.workload.layers))
    refuse("backward_degrees", fmt::format("{} degrees for {} layers; expected one each or none",
                                           p.backward_degrees.size(), e.workload.layers));
  for (int degree : p.backward_degrees) require_degree("backward_degrees", degree, p, v.capacity);
  if (p.grad_sync != GradSync::Partitioned) {
    if (!p.gradient_slices.empty()) refuse("gradient_slices", "given, but plan.grad_sync is not partitioned");
    return;
  }
  const std::int64_t all = v.dense_parameters * e.workload.layers;
  std::int64_t sum = 0;
  int last_window = 0;
  for (const GradientSlice& s : p.gradient_slices) {
    if (s.elements < 1)
      refuse("gradient_slices", fmt::format("a slice of {} elements, expected at least 1", s.elements));
    if (s.elements > all - sum) refuse("gradient_slices", fmt::format("slices exceed the {} dense gradients", all));
    if (s.layer < 0 || s.layer >= e.workload.layers)
      refuse("gradient_slices", fmt::format("layer {}, expected 0 to {}", s.layer, e.workload.layers - 1));
    sum += s.elements;
    const int window = window_order(s, e.workload.layers);
    if (window < last_window) refuse("gradient_slices", "windows are not in backward order");
    last_window = window;
    // Backward order: when layer s.layer runs, the gradients of the layers after it exist.
    const std::int64_t ready = (e.workload.layers - 1 - s.layer) * v.dense_parameters;
    if (s.window != Window::Tail && sum > ready)
      refuse("gradient_slices",
             fmt::format("the slice beside layer {} ends at element {}, but only {} gradients exist by then", s.layer,
                         sum, ready));
  }
  if (sum != all && e.workload.phases == Phases::Training)
    refuse("gradient_slices", fmt::format("slices add up to {} elements, expected all {} dense gradients", sum, all));
}

}  // namespace dovetail
