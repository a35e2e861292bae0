#include "models/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/errors.hpp"
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
  require_built("split", split_names, p.split, {Split::Capacity});
  require_built("order", order_names, p.order, {Order::DispatchFirst});
  require_built("comm_streams", comm_streams_names, p.comm_streams, {CommStreams::One, CommStreams::InterIntra});
  require_built("all_to_all", all_to_all_names, p.all_to_all, {AllToAll::Linear});
  require_built("protocol", protocol_names, p.protocol, {Protocol::Simple});
  require_built("grad_sync", grad_sync_names, p.grad_sync,
                {GradSync::After, GradSync::WithDense, GradSync::FixedChunks, GradSync::Partitioned});
  require_built("restore", restore_names, p.restore, {Restore::Keep});
  require_built("buffers", buffers_names, p.buffers, {Buffers::PerChunk});
  require_built("all_to_all_implementation", all_to_all_implementation_names, p.all_to_all_implementation,
                {AllToAllImplementation::PointToPoint});
  require_built("dispatch_wire", wire_names, p.dispatch_wire, {Wire::Same});
  require_built("combine_wire", wire_names, p.combine_wire, {Wire::Same});
  require_built("encoding", encoding_names, p.encoding, {Encoding::Sparse});
  require_built("expert_sharding", expert_sharding_names, p.expert_sharding, {ExpertSharding::Ep});
  require_built("layout", layout_names, p.layout, {Layout::ExpertMajor});
  require_built("expert_kernel", expert_kernel_names, p.expert_kernel, {ExpertKernel::Batched});
  require_built("shared_experts", shared_experts_names, p.shared_experts, {SharedExperts::Serial});
  require_built("pipeline_schedule", pipeline_schedule_names, p.pipeline_schedule,
                {PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward});
  require_built("recompute", recompute_names, p.recompute, {Recompute::None});
  if (p.delay_weight_gradient) refuse("delay_weight_gradient", "true is not built yet; built: false");
  if (p.host_sync) refuse("host_sync", "true is not built yet; built: false");
  if (!p.all_to_all_levels.empty()) refuse("all_to_all_levels", "levels are not built yet; built: none");
  if (!p.shadowed_experts.empty()) refuse("shadowed_experts", "shadowing is not built yet; built: none");
  require_value("sharding_repeats", p.sharding_repeats, 0);
  require_value("row_tile", p.row_tile, 0);
  require_value("virtual_stages", p.virtual_stages, 1);
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
  return 3 * (layers - 1 - slice.layer) + static_cast<int>(slice.window);
}

LayerRun run_of_stage(const Experiment& e, int stage) {
  return layers_of_stage(e.workload.layers, e.parallelism.pp, stage);
}

// Of one stage: whole layers, beside the attention of the layer that follows in backward order or at the end.
void add_whole_layers(const Experiment& e, LayerRun run, bool beside_next, std::vector<GradientSlice>& slices) {
  for (int layer = run.last - 1; layer >= run.first; --layer) {
    const bool beside = beside_next && layer > run.first;
    slices.push_back(
        {beside ? Window::Dense : Window::Tail, beside ? layer - 1 : run.first, layer_volumes(e).dense_parameters});
  }
}

// Of one stage: chunks of equal size, each in the window that follows its last gradient.
void add_chunks(const Experiment& e, LayerRun run, std::int64_t chunk, std::vector<GradientSlice>& slices) {
  std::int64_t waiting = 0;
  for (int layer = run.last - 1; layer >= run.first; --layer) {
    const bool last = layer == run.first;
    waiting += layer_volumes(e).dense_parameters;
    for (; waiting >= chunk || (last && waiting > 0); waiting -= std::min(chunk, waiting))
      slices.push_back({last ? Window::Tail : Window::Moe, last ? run.first : layer - 1, std::min(chunk, waiting)});
  }
}

void require_slice(const GradientSlice& s, LayerRun run) {
  if (s.elements < 1) refuse("gradient_slices", fmt::format("a slice of {} elements, expected at least 1", s.elements));
  if (s.window == Window::Tail && s.layer != run.first)
    refuse("gradient_slices", fmt::format("a slice of the tail at layer {}, expected {}", s.layer, run.first));
}

// The slices of one stage, from `next` on, which is left at the first of another.
void require_slices_of_stage(const Plan& p, const Experiment& e, LayerRun run, std::size_t& next) {
  const std::int64_t layer = layer_volumes(e).dense_parameters, all = layer * (run.last - run.first);
  std::int64_t sum = 0;
  for (; next < p.gradient_slices.size() && run.contains(p.gradient_slices[next].layer); ++next) {
    const GradientSlice& s = p.gradient_slices[next];
    require_slice(s, run);
    if (s.elements > all - sum) refuse("gradient_slices", fmt::format("slices exceed the {} dense gradients", all));
    sum += s.elements;
    // When layer s.layer runs, the gradients of the layers after it exist.
    const std::int64_t ready = (run.last - 1 - s.layer) * layer;
    if (s.window != Window::Tail && sum > ready)
      refuse("gradient_slices",
             fmt::format("the slice beside layer {} ends at element {}, but only {} gradients exist by then", s.layer,
                         sum, ready));
  }
  if (sum != all && e.workload.phases == Phases::Training)
    refuse("gradient_slices", fmt::format("slices add up to {} elements, expected all {} dense gradients", sum, all));
}

void require_slices(const Plan& p, const Experiment& e) {
  int last_window = 0;
  for (const GradientSlice& s : p.gradient_slices) {
    if (s.layer < 0 || s.layer >= e.workload.layers)
      refuse("gradient_slices", fmt::format("layer {}, expected 0 to {}", s.layer, e.workload.layers - 1));
    const int window = window_order(s, e.workload.layers);
    if (window < last_window) refuse("gradient_slices", "windows are not in backward order");
    last_window = window;
  }
  std::size_t next = 0;
  for (int stage = e.parallelism.pp - 1; stage >= 0; --stage)
    require_slices_of_stage(p, e, run_of_stage(e, stage), next);
}

void require_micro_batches(const Plan& p, const Experiment& e) {
  constexpr int most = 32767;  // they are 16-bit in ops
  const int batch = e.workload.batch;
  if (p.micro_batches < 1 || p.micro_batches > most)
    refuse("micro_batches", fmt::format("{}, expected 1 to {}", p.micro_batches, most));
  if (batch % p.micro_batches != 0)
    refuse("micro_batches", fmt::format("{} do not divide the batch of {} samples", p.micro_batches, batch));
  const std::int64_t tokens = std::int64_t{batch / p.micro_batches} * e.workload.sequence;
  if (tokens % e.parallelism.mp != 0)
    refuse("micro_batches", fmt::format("{} leave {} tokens each, which do not divide over mp {} ranks",
                                        p.micro_batches, tokens, e.parallelism.mp));
}

}  // namespace

std::vector<GradientSlice> gradient_slices(const Plan& plan, const Experiment& e) {
  if (plan.grad_sync == GradSync::Partitioned) return plan.gradient_slices;
  const auto chunk =
      static_cast<std::int64_t>(static_cast<double>(plan.gradient_chunk_bytes) / size_of(e.workload.dtype).value());
  std::vector<GradientSlice> slices;
  for (int stage = e.parallelism.pp - 1; stage >= 0; --stage) {
    const LayerRun run = run_of_stage(e, stage);
    if (plan.grad_sync == GradSync::FixedChunks)
      add_chunks(e, run, chunk, slices);
    else
      add_whole_layers(e, run, plan.grad_sync == GradSync::WithDense, slices);
  }
  return slices;
}

void validate(const Plan& p, const Experiment& e) {
  require_built_knobs(p);
  require_micro_batches(p, e);
  const LayerVolumes v = layer_volumes(one_micro_batch(e, p.micro_batches));
  require_degree("forward_degree", p.forward_degree, p, v.capacity);
  require_degree("backward_degree", p.backward_degree, p, v.capacity);
  if (!p.backward_degrees.empty() && p.backward_degrees.size() != static_cast<std::size_t>(e.workload.layers))
    refuse("backward_degrees", fmt::format("{} degrees for {} layers; expected one each or none",
                                           p.backward_degrees.size(), e.workload.layers));
  for (int degree : p.backward_degrees) require_degree("backward_degrees", degree, p, v.capacity);
  if (static_cast<double>(p.gradient_chunk_bytes) < size_of(e.workload.dtype).value())
    refuse("gradient_chunk_bytes", fmt::format("{}, expected at least one element", p.gradient_chunk_bytes));
  if (p.grad_sync == GradSync::Partitioned)
    require_slices(p, e);
  else if (!p.gradient_slices.empty())
    refuse("gradient_slices", "given, but plan.grad_sync is not partitioned");
}

}  // namespace dovetail
