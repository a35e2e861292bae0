// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/step_context.hpp"

#include <algorithm>
#include <utility>

#include "models/plan/collectives/all_to_all.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/halves.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::builder {
namespace {

std::size_t op_estimate(const Experiment& e, const Plan& plan, int micro_batches) {
  const std::size_t chunks = 5 * static_cast<std::size_t>(plan.forward_degree + plan.backward_degree);
  return static_cast<std::size_t>(e.workload.all_layers() * micro_batches) * (chunks + 45) +
         plan.gradient_slices.size() + 4;
}

// The first and the last one, and one that stands for the others.
constexpr int recorded_micro_batches = 3;

// The last elements become a slice of their own. Both stages that hold the embedding then cut its gradient into the
// same shards, so that each rank's shard of one is that of the same rank of the other. Megatron-LM has a bucket for it.
void set_last_apart(std::vector<GradientSlice>& slices, std::int64_t elements) {
  GradientSlice apart = slices.back();
  apart.elements = elements;
  for (std::int64_t left = elements; left > 0;) {
    const std::int64_t taken = std::min(left, slices.back().elements);
    slices.back().elements -= taken;
    left -= taken;
    if (slices.back().elements == 0) slices.pop_back();
  }
  slices.push_back(apart);
}

}  // namespace

StepContext::StepContext(const Experiment& experiment, const Plan& plan)
    : micro_batch_of_(plan.micro_batches > 1 ? std::optional(one_micro_batch(experiment, plan.micro_batches))
                                             : std::nullopt),
      experiment_(micro_batch_of_ ? *micro_batch_of_ : experiment),
      plan_(plan),
      groups_(exchange_groups(plan, experiment.parallelism)),
      layout_(stage_layout(plan, experiment)),
      writer_(op_estimate(experiment, plan, std::min(plan.micro_batches, recorded_micro_batches))),
      all_to_all_steps_(dovetail::all_to_all_steps(plan, experiment)),
      stages_(static_cast<std::size_t>(experiment.parallelism.pp)),
      row_counts_(static_cast<std::size_t>(experiment.workload.all_layers() * plan.micro_batches)),
      ends_(end_volumes(experiment_, layout_)) {
  writer_.set_steps(all_to_all_steps_);
  for (int layer = 0; layer < layers(); ++layer) {
    const LayerVolumes& v = volumes_.emplace_back(layer_volumes(experiment_, plan, layer));
    std::vector<TokenPart>& parts = parts_.emplace_back();
    if (plan.scope != Scope::Block)
      parts.push_back(all_tokens(v));
    else
      for (int i = 0; i < plan.forward_degree; ++i) parts.push_back(token_part(v, plan.forward_degree, i));
  }
  for (Stage& stage : stages_) {
    enter(static_cast<int>(&stage - stages_.data()), 0);
    add_streams(stage.streams);
    add_weights(stage);
  }
}

void StepContext::enter(int stage, int micro_batch) {
  stage_ = stage;
  micro_batch_ = micro_batch;
}

void StepContext::add_streams(StreamIds& streams) {
  const auto add_stream = [&](StreamKind kind) { return writer_.add_stream(kind, stage_); };
  streams.compute = add_stream(StreamKind::Compute);
  const bool split = plan_.comm_streams == CommStreams::InterIntra;
  const bool by_group = plan_.comm_streams == CommStreams::ByGroup;
  const bool apart = split || by_group || plan_.comm_streams == CommStreams::MpApart;
  streams.inter = add_stream(apart ? StreamKind::Inter : StreamKind::Communication);
  streams.mp = apart ? add_stream(StreamKind::Intra) : streams.inter;
  streams.intra = split ? streams.mp : streams.inter;
  streams.combine =
      plan_.comm_streams == CommStreams::DispatchCombine ? add_stream(StreamKind::Combine) : streams.inter;
  const auto of_weights = [&](StreamKind kind) { return by_group && training() ? add_stream(kind) : streams.inter; };
  streams.gradients = of_weights(StreamKind::Gradients);
  streams.expert_gradients = experiment_.model.dense() ? streams.gradients : of_weights(StreamKind::ExpertGradients);
  if (training() && (offloads_input(plan_.restore) || offloads_hidden(plan_.restore)))
    streams.copy = add_stream(StreamKind::Copy);
  if (stages() == 1) return;
  streams.send = add_stream(StreamKind::Send);
  streams.receive = add_stream(StreamKind::Receive);
}

void StepContext::add_end_weights(EndWeightIds& ids) {
  if (has_embedding()) ids.embedding = persistent(TensorKind::EmbeddingWeights, 0, ends_.embedding_parameters);
  if (!has_head()) return;
  if (!ends_.share_weights()) ids.head = persistent(TensorKind::HeadWeights, layers(), ends_.head_parameters);
  ids.norm = persistent(TensorKind::NormWeights, layers(), ends_.norm_parameters);
  if (ends_.embedding_twice)
    ids.second_embedding = persistent(TensorKind::EmbeddingWeights, main_layers(), ends_.embedding_parameters);
  if (ends_.share_weights()) ids.head = embedding_weights();
}

void StepContext::add_weights(Stage& stage) {
  const std::span<const int> own = layers_of_stage();
  stage.weights.resize(static_cast<std::size_t>(layers()));
  add_end_weights(stage.end_weights);
  for (int layer : own) {
    const LayerVolumes& v = volumes(layer);
    LayerWeightIds& ids = stage.weights[static_cast<std::size_t>(layer)];
    ids.dense = persistent(TensorKind::DenseWeights, layer, v.dense_parameters);
    if (v.moe) {
      ids.router = persistent(TensorKind::RouterWeights, layer, v.router_parameters);
      ids.expert = persistent(TensorKind::ExpertWeights, layer, v.expert_parameters);
    }
    if (has_norms()) ids.norm = persistent(TensorKind::NormWeights, layer, v.norm_parameters);
  }
  if (!training()) return;
  stage.dense_gradients = weight_gradients(TensorKind::DenseGradients, own.front(), embedding_gradients().last);
  if (has_norms())
    stage.replicated_gradients = weight_gradients(TensorKind::ReplicatedGradients, own.front(),
                                                  replicated_gradients_of(has_head() ? layers() : own.back()).last);
  for (int layer : own) {
    const LayerVolumes& v = volumes(layer);
    if (!v.moe) continue;
    LayerWeightIds& ids = stage.weights[static_cast<std::size_t>(layer)];
    if (!has_norms()) ids.router_gradient = weight_gradients(TensorKind::RouterGradient, layer, v.router_parameters);
    ids.expert_gradient = weight_gradients(TensorKind::ExpertGradient, layer, v.expert_parameters);
  }
  stage.slices = dovetail::gradient_slices(plan_, dense_elements(experiment_, layout_),
                                           size_of(experiment_.workload.gradient_dtype()), layout_);
  const int of_slices = std::min(stage_, layout_.twin_of(stage_));
  std::erase_if(stage.slices, [&](const GradientSlice& s) { return layout_.stage_of(s.layer) != of_slices; });
  if (plan_.zero > 0 && ends_.embedding_twice && holds_embedding())
    set_last_apart(stage.slices, ends_.embedding_parameters);
  add_optimizer(stage);
}

void StepContext::add_optimizer(Stage& stage) {
  const auto add = [&](TensorKind kind, std::int64_t elements) {
    Tensor t = tensor(kind, layers_of_stage().front(), elements);
    t.persistent = true;
    t.dtype = DType::Fp32;
    return writer_.add_tensor(t);
  };
  // Two Adam moments, and a master weight where weights are not fp32.
  const DType dtype = experiment_.workload.dtype;
  const int states = dtype == DType::Fp32 || dtype == DType::Fp64 ? 2 : 3;
  stage.optimizer_state = add(TensorKind::OptimizerState, states * updated_parameters());
  if (!clips()) return;
  stage.gradient_squares = stage.squares_of_all = add(TensorKind::GradientSquares, 1);
  if (experiment_.cluster.gpus() > 1) stage.squares_of_all = add(TensorKind::SquaresOfAll, 1);
}

TensorIds StepContext::all_gradients() const {
  TensorIds all{dense_gradients()};
  for (int layer : layers_of_stage())
    for (const TensorId id : {weights(layer).router_gradient, weights(layer).expert_gradient})
      if (id.exists()) all.push_back(id);
  if (has_norms()) all.push_back(replicated_gradients());
  return all;
}

RowRange StepContext::dense_gradients_of(int layer) const {
  std::int64_t first = head_gradients().last;
  for (int later : layers_of_stage()) first += later > layer ? volumes(later).dense_parameters : 0;
  return {first, first + volumes(layer).dense_parameters};
}

RowRange StepContext::embedding_gradients() const {
  const std::int64_t first = dense_gradients_of(layers_of_stage().front()).last;
  return {first, first + (holds_embedding() ? ends_.embedding_parameters : 0)};
}

RowRange StepContext::replicated_gradients_of(int layer) const {
  std::int64_t first = 0;
  for (int earlier : layers_of_stage()) first += earlier < layer ? volumes(earlier).replicated_parameters() : 0;
  return {first, first + (layer == layers() ? ends_.norm_parameters : volumes(layer).replicated_parameters())};
}

RowRange StepContext::query_key_norm_gradients_of(int layer) const {
  const LayerVolumes& v = volumes(layer);
  const std::int64_t first = replicated_gradients_of(layer).first;
  return {first + 2 * v.hidden, first + v.norm_parameters - v.mtp_norm_parameters};
}

std::int64_t StepContext::updated_parameters() const {
  const auto updated = [this](std::int64_t elements, int replicas) {
    return Shards({0, elements}, plan_.zero > 0 ? replicas : 1).updated();
  };
  std::int64_t sum = 0;
  for (const GradientSlice& slice : here().slices) sum += updated(slice.elements, groups_.dp);
  if (has_norms()) sum += updated(elements_of(replicated_gradients()), groups_.dp);
  for (int layer : layers_of_stage()) {
    const LayerVolumes& v = volumes(layer);
    if (v.moe) sum += updated(v.expert_parameters, groups_.edp) + (has_norms() ? 0 : v.router_parameters);
  }
  return sum;
}

std::int64_t StepContext::held_parameters() const {
  std::int64_t sum = elements_of(dense_gradients());
  if (has_norms()) sum += elements_of(replicated_gradients());
  for (int layer : layers_of_stage()) {
    const LayerVolumes& v = volumes(layer);
    if (v.moe) sum += v.expert_parameters + (has_norms() ? 0 : v.router_parameters);
  }
  return sum;
}

std::size_t StepContext::expected_ops() const {
  return op_estimate(experiment_, plan_, plan_.micro_batches);
}

Schedule StepContext::finish(ScheduleWriter step) const {
  Schedule schedule = step.finish(experiment_.parallelism.stage_ranks());
  static_cast<ScheduleSettings&>(schedule) = schedule_settings(plan_, experiment_);
  schedule.groups = groups_;
  return schedule;
}

Wire StepContext::wire(OpKind exchange, Phase phase) const {
  if (deduplicates() && exchange == OpKind::Dispatch && phase == Phase::Backward) return Wire::Same;
  const Wire wire = exchange == OpKind::Combine ? plan_.combine_wire : plan_.dispatch_wire;
  if (wire == Wire::Same || groups_.ep == 1) return Wire::Same;
  return size_of(wire_dtype(wire)) < size_of(experiment_.workload.dtype) ? wire : Wire::Same;
}

Op StepContext::op(OpKind kind, Phase phase, int layer, StreamId stream, const Work& work) const {
  Op o;
  o.kind = kind;
  o.phase = phase;
  o.stream = stream;
  o.layer = static_cast<std::int16_t>(layer);
  o.micro_batch = static_cast<std::int16_t>(micro_batch_);
  o.recomputed = recomputing_;
  o.work = work;
  return o;
}

Op StepContext::part_op(OpKind kind, Phase phase, int layer, const TokenPart& part, const Work& work) const {
  return chunk_op(kind, phase, layer, streams().compute, part.chunk, part.chunk < 0 ? RowRange{} : part.slots, work);
}

Op StepContext::chunk_op(OpKind kind, Phase phase, int layer, StreamId stream, int chunk, const ChunkRange& range,
                         const Work& work) const {
  Op o = op(kind, phase, layer, stream, work);
  o.chunk = static_cast<std::int16_t>(chunk);
  o.rows = range.rows;
  o.peers = range.peers;
  return o;
}

OpId StepContext::add(const Op& op, std::span<const TensorId> reads, std::span<const TensorId> writes, OpId after) {
  const auto is_new = [&](TensorId t) { return writer_.tensor(t).recomputed; };
  if (recomputing_ && std::ranges::none_of(reads, is_new)) after = std::max(after, recomputing_after_);
  if (!deferred_.is_open() || !deferred_.writes_any(reads)) return writer_.add_op(op, reads, writes, after);
  deferred_.add({op, {reads.begin(), reads.end()}, {writes.begin(), writes.end()}, after});
  return {};
}

OpId StepContext::add(const Op& op, std::initializer_list<TensorId> reads, std::initializer_list<TensorId> writes,
                      OpId after) {
  return add(op, std::span(reads.begin(), reads.size()), std::span(writes.begin(), writes.size()), after);
}

OpId StepContext::add_backward(Op op, const OpWork& work, const std::function<Work(const OpWork&)>& make,
                               std::span<const TensorId> reads, std::span<const TensorId> writes) {
  if (!deferred_.is_open()) {
    op.work = make(work);
    return add(op, reads, writes);
  }
  const auto add_between = [&](TensorKind kind) {
    const auto value = std::ranges::find_if(reads, [&](TensorId id) { return writer_.tensor(id).kind == kind; });
    return activation(kind, op.layer, elements_of(*value), /*gradient=*/true, writer_.tensor(*value).chunk);
  };
  OpHalves halves = halves_of(writer_.so_far().tensors, op.kind, reads, writes, add_between);
  op.half = Half::Weights;
  op.work = make(work.of_half(op.half));
  deferred_.add({op, std::move(halves.weights.reads), std::move(halves.weights.writes), {}});
  op.half = Half::Inputs;
  op.work = make(work.of_half(op.half));
  op.gradients = {};
  return add(op, halves.inputs.reads, halves.inputs.writes);
}

void StepContext::add_weights(int virtual_stage) {
  for (const DeferredOp& deferred : deferred_.take(virtual_stage, micro_batch_))
    add(deferred.op, deferred.reads, deferred.writes, deferred.after);
}

constexpr int delayed = -1;  // in place of a virtual stage
void StepContext::begin_delay() {
  if (deferred_.is_open()) return;
  deferred_.begin(delayed, micro_batch_);
  delaying_ = true;
}
void StepContext::end_delay() {
  if (std::exchange(delaying_, false)) deferred_.end();
}
void StepContext::add_delayed() {
  if (!deferred_.is_open()) add_weights(delayed);
}

bool StepContext::keeps_activated() const {
  return has_norms() && training() && experiment_.model.expert_kind == ExpertKind::Gated &&
         plan_.restore == Restore::Keep && !recomputes(Recompute::Activation);
}

void StepContext::begin_recomputing(OpId begin) {
  recomputing_ = true;
  recomputing_after_ = begin;
}

void StepContext::hold_copies(TensorId tensor, Bytes each) {
  const Tensor& t = writer_.tensor(tensor);
  writer_.hold(tensor, t.held + each / size_of(t.dtype));
}

void StepContext::hold_mask(TensorId sum) {
  if (training() && !recomputes(Recompute::Full)) hold_copies(sum, Bytes(experiment_.framework.dropout_masks));
}

void StepContext::wait_for(Phase phase, int layer, TensorId tensor) {
  if (plan_.graphs == Graphs::All || plan_.host_sync) return;
  hold_back(add(op(OpKind::HostSync, phase, layer, streams().compute, work(layer).host_sync()), {tensor}, {}));
}

void StepContext::host_sync(Phase phase, int layer) {
  if (plan_.host_sync)
    writer_.add_barrier(op(OpKind::HostSync, phase, layer, streams().compute, work(layer).host_sync()));
}

Tensor StepContext::tensor(TensorKind kind, int layer, std::int64_t elements) const {
  Tensor t;
  t.kind = kind;
  t.dtype = experiment_.workload.dtype;
  t.rank_class = static_cast<std::int16_t>(stage_);
  t.layer = static_cast<std::int16_t>(layer);
  t.micro_batch = static_cast<std::int16_t>(micro_batch_);
  t.recomputed = recomputing_;
  t.elements = elements;
  return t;
}

TensorId StepContext::persistent(TensorKind kind, int layer, std::int64_t elements, bool gradient) {
  Tensor t = tensor(kind, layer, elements);
  t.persistent = true;
  t.gradient = gradient;
  return writer_.add_tensor(t);
}

TensorId StepContext::weight_gradients(TensorKind kind, int layer, std::int64_t elements) {
  Tensor t = tensor(kind, layer, elements);
  t.persistent = true;
  t.dtype = experiment_.workload.gradient_dtype();
  return writer_.add_tensor(t);
}

TensorId StepContext::arriving_gradients(TensorKind kind, int layer, std::int64_t elements) {
  Tensor t = tensor(kind, layer, elements);
  t.dtype = experiment_.workload.gradient_dtype();
  return writer_.add_tensor(t);
}

TensorId StepContext::activation(TensorKind kind, int layer, std::int64_t elements, bool gradient, int chunk) {
  Tensor t = tensor(kind, layer, elements);
  t.chunk = static_cast<std::int16_t>(chunk);
  t.gradient = gradient;
  if (!gradient && kept_in_fp8(kind)) t.held = size_of(DType::Fp8) / size_of(t.dtype);
  return writer_.add_tensor(t);
}

// The inputs of products that their backward pass reads.
bool StepContext::kept_in_fp8(TensorKind kind) const {
  if (!experiment_.framework.fp8_inputs || !experiment_.workload.other_products()) return false;
  return kind == TensorKind::NormedInput || kind == TensorKind::FfnActivated;
}

TensorId StepContext::fp32(TensorKind kind, int layer, std::int64_t elements, bool gradient, int chunk) {
  Tensor t = tensor(kind, layer, elements);
  t.gradient = gradient;
  t.chunk = static_cast<std::int16_t>(chunk);
  t.dtype = DType::Fp32;
  return writer_.add_tensor(t);
}

Tensor StepContext::tensor_like(const Op& op, TensorKind kind, std::int64_t elements) const {
  Tensor t = tensor(kind, op.layer, elements);
  const StepPlace& place = op;
  static_cast<StepPlace&>(t) = place;
  t.gradient = op.phase == Phase::Backward && !entry_of(op.kind).restores;
  return t;
}

TensorId StepContext::chunked(TensorKind kind, const Op& op, std::int64_t elements, Wire wire, TensorId buffer) {
  Tensor t = tensor_like(op, kind, elements);
  if (wire != Wire::Same) t.dtype = wire_dtype(wire);
  t.buffer = buffer;
  return writer_.add_tensor(t);
}

TensorId StepContext::expert_hidden(const Op& op, std::int64_t rows, TensorId buffer) {
  const TensorId hidden = chunked(TensorKind::Hidden, op, rows * volumes(op.layer).kept_hidden(), Wire::Same, buffer);
  const TrainingFramework& f = experiment_.framework;
  if (is_plain() && !writer_.tensor(hidden).gradient)
    hold_copies(hidden, Bytes(f.activation_inputs + f.weighted_activations));
  return hidden;
}

bool StepContext::is_plain() const {
  return training() && experiment_.model.expert_kind == ExpertKind::Ffn;
}

TensorId StepContext::row_scores(TensorKind kind, const Op& op, std::int64_t copies) {
  const LayerVolumes& v = volumes(op.layer);
  Tensor t = tensor_like(op, kind, copies * v.all_to_all_elements(chunk_of(op)) / v.row_width);
  t.dtype = DType::Fp32;
  return writer_.add_tensor(t);
}

std::int64_t StepContext::row_elements(const Op& op, Wire wire, std::int64_t copies) const {
  const LayerVolumes& v = volumes(op.layer);
  const std::int64_t row = wire == Wire::Same ? v.row_width : wire_row_elements(wire, v.row_width);
  return copies * v.all_to_all_elements(chunk_of(op)) / v.row_width * row;
}

TensorId StepContext::copy_of(TensorId original, Place place, TensorId buffer) {
  Tensor t = writer_.tensor(original);
  t.place = place;
  t.buffer = buffer;
  return writer_.add_tensor(t);
}

TensorId StepContext::pass(const Op& op, std::span<const TensorId> inputs, TensorKind kind, std::int64_t elements,
                           TensorId buffer) {
  const TensorId output = chunked(kind, op, elements, Wire::Same, buffer);
  add(op, inputs, {&output, 1});
  return output;
}

}  // namespace dovetail::builder
