// SPDX-License-Identifier: Apache-2.0
#include "exec/step/op_operands.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "exec/run/compute_rules.hpp"
#include "models/base/errors.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::exec {
namespace {

// Empty where the router decides.
std::vector<std::vector<Routing>> modelled_routing(const Experiment& experiment, int micro_batches) {
  const Experiment e = one_micro_batch(experiment, micro_batches);
  std::vector<std::vector<Routing>> routing;
  if (modelled_choices(e, 0, 0).empty()) return routing;
  for (int layer = 0; layer < e.workload.all_layers(); ++layer) {
    routing.emplace_back();
    for (int i = 0; i < micro_batches; ++i)
      for (int rank = 0; rank < e.parallelism.stage_ranks(); rank += e.parallelism.token_repeats())
        routing.back().push_back(modelled_choices(e, layer, rank));
  }
  return routing;
}

}  // namespace

TensorId OpRoles::find(std::span<const TensorId> ids, Role role) const {
  const auto found = std::ranges::find_if(ids, [&](TensorId id) { return role.covers(tensor(id)); });
  return found == ids.end() ? TensorId() : *found;
}

TensorId OpRoles::required(std::span<const TensorId> ids, Role role) const {
  const TensorId found = find(ids, role);
  if (!found.exists()) throw InternalError(to_string(op) + " has no operand " + to_string(role));
  return found;
}

std::vector<TensorId> OpRoles::all(std::span<const TensorId> ids, Role role) const {
  std::vector<TensorId> found;
  std::ranges::copy_if(ids, std::back_inserter(found), [&](TensorId id) { return role.covers(tensor(id)); });
  return found;
}

Routing preset_of_part(const OpOperands& o) {
  return o.preset.empty() || o.part.chunk < 0 ? o.preset : routing_of_part(o.shape, o.part.tokens, o.preset);
}

LayerShape expert_shape(const OpOperands& o) {
  LayerShape s = o.shape;
  if (o.op.expert >= 0) {
    s.local_experts = 1;
    s.placement = {};
  }
  const Role rows = roles::expert_input | roles::d_expert_output;
  const std::int64_t row_elements = s.positions() * o.op.rows.size() * s.hidden;
  s.row_copies = o.read_tensor(rows).elements / row_elements;
  s.block_gemms = o.op.kernel() != nullptr && o.op.kernel()->gemm_rows == o.op.rows.size();
  if (s.extensions.expert != nullptr) return s;  // with its own shard alone
  const Tensor& weights =
      o.op.half == Half::Weights ? o.write_tensor(roles::expert_gradient) : o.read_tensor(roles::expert_weights);
  s.weight_shards = weights.elements / (s.local_experts * s.expert_parameters());
  return s;
}

namespace {

// The elements of what the update reads of a role, in the layers that `counts` picks.
template <class Counts>
std::int64_t elements_of(const OpRoles& update, Role role, Counts counts) {
  std::int64_t sum = 0;
  for (TensorId id : update.all_reads(role))
    if (counts(update.tensor(id).layer)) sum += update.tensor(id).elements;
  return sum;
}

// The output head comes first, then the last layer; the embedding is last.
std::int64_t place_in_dense(const OpRoles& update, const Tensor& weights) {
  if (weights.kind == TensorKind::HeadWeights) return 0;
  const bool embedding = weights.kind == TensorKind::EmbeddingWeights;
  return elements_of(update, TensorKind::HeadWeights | TensorKind::DenseWeights,
                     [&](int layer) { return embedding || layer > weights.layer; });
}

GradientPlace gradient_of(const OpRoles& update, const Tensor& weights) {
  if ((TensorKind::DenseWeights | TensorKind::HeadWeights | TensorKind::EmbeddingWeights).covers(weights))
    return {update.read_id(TensorKind::DenseGradients), place_in_dense(update, weights)};
  const TensorId replicated = update.find_read(TensorKind::ReplicatedGradients);
  if (replicated.exists() && weights.kind != TensorKind::ExpertWeights) {
    const Role alike = TensorKind::NormWeights | TensorKind::RouterWeights;
    const std::int64_t own_norms =
        elements_of(update, TensorKind::NormWeights, [&](int layer) { return layer == weights.layer; });
    return {replicated, elements_of(update, alike, [&](int layer) { return layer < weights.layer; }) +
                            (weights.kind == TensorKind::RouterWeights ? own_norms : 0)};
  }
  const TensorKind gradient =
      weights.kind == TensorKind::RouterWeights ? TensorKind::RouterGradient : TensorKind::ExpertGradient;
  for (TensorId id : update.all_reads(gradient))
    if (update.tensor(id).layer == weights.layer) return {id, 0};
  throw InternalError("weights without a gradient");
}

}  // namespace

UpdatedParts updated_parts(const OpRoles& update, int rank) {
  const auto ranges = updated_ranges(update.schedule, update.schedule.class_of(update.op), rank);
  UpdatedParts parts;
  for (TensorId weights : update.all_writes(roles::weights)) {
    const GradientPlace of_first = gradient_of(update, update.tensor(weights));
    const RowRange all{of_first.first, of_first.first + update.tensor(weights).elements};
    for (const RowRange& range : intersect(ranges[of_first.tensor], all)) {
      parts.all.push_back(
          {weights, {range.first - all.first, range.last - all.first}, {of_first.tensor, range.first}, parts.total});
      parts.total += range.size();
    }
  }
  return parts;
}

std::int64_t input_half(const OpOperands& norm) {
  return norm.find_read(TensorKind::NormedInput).exists() ? 1 : 0;
}

std::int64_t first_norm_weight(const OpOperands& norm) {
  const std::int64_t hidden = norm.shape.hidden, all = norm.read_tensor(TensorKind::NormWeights).elements;
  if (norm.find_read(TensorKind::MoeInput).exists()) return hidden;
  if (norm.depth == 0) return 0;
  const bool of_input =
      norm.find_write(TensorKind::MtpInput).exists() || norm.find_read(gradient_of(TensorKind::MtpInput)).exists();
  if (of_input) return all - (3 - input_half(norm)) * hidden;
  const bool of_output = norm.read_tensor(TensorKind::LayerInput).layer > norm.op.layer;
  return of_output ? all - hidden : 0;
}

std::int64_t parameters_before_projection(const OpOperands& o) {
  if (o.op.half == Half::Weights) return o.shape.dense_parameters() + o.op.gradients.size();
  const std::int64_t all = o.read_tensor(TensorKind::DenseWeights).elements;
  return o.depth == 0 ? all : all - 2 * o.shape.hidden * o.shape.hidden / o.schedule.groups.mp;
}

WordShare word_share(const OpOperands& o) {
  const std::int64_t ranks = o.schedule.groups.mp, rank = o.rank % ranks;
  return {rank * o.words, o.words, ranks};
}

OpSetup::OpSetup(const Experiment& experiment, std::shared_ptr<const Schedule> schedule, std::vector<int> ranks,
                 std::vector<std::vector<Routing>> routing)
    : schedule_(std::move(schedule)),
      ranks_(std::move(ranks)),
      parallelism_(experiment.parallelism),
      modelled_(modelled_routing(experiment, schedule_->micro_batches)),
      routing_(std::move(routing)),
      clip_(experiment.workload.clip()),
      main_layers_(experiment.workload.layers),
      all_layers_(experiment.workload.all_layers()) {
  const int token_chunks = rules_of(*schedule_).token_chunks;
  const Experiment part = one_micro_batch(experiment, schedule_->micro_batches);
  const LayerVolumes volumes = layer_volumes(part);
  words_ = end_volumes(experiment).words;
  rows_ = token_rows(volumes, token_chunks);
  parts_.push_back(all_tokens(volumes));
  if (token_chunks > 0)
    for (const TokenPart& chunk : token_parts(volumes, token_chunks)) parts_.push_back(chunk);
  for (int rank : ranks_) {
    shapes_.emplace_back();
    for (const TokenPart& chunk : parts_)
      shapes_.back().push_back(part_shape(layer_shape(part, *schedule_, rank), chunk));
  }
}

OpOperands OpSetup::operands(std::size_t local, const Op& op) const {
  // Chunks are chunks of tokens only where attention is chunked.
  const std::size_t part = parts_.size() == 1 ? 0 : static_cast<std::size_t>(op.chunk + 1);
  const int rank = ranks_[local] % parallelism_.stage_ranks();
  const int group = op.micro_batch * parallelism_.token_ranks() + rank / parallelism_.token_repeats();
  const int depth = op.layer < all_layers_ ? std::max(0, op.layer - main_layers_ + 1) : 0;
  return {{*schedule_, op},
          shapes_[local][part],
          parts_[part],
          rows_,
          preset(op, group),
          words_,
          group,
          rank,
          clip_,
          depth};
}

const Routing& OpSetup::preset(const Op& op, int group) const {
  static const Routing none;
  const auto& routing = routing_.empty() ? modelled_ : routing_;
  if (op.kind != OpKind::Gate || routing.empty()) return none;
  return routing[static_cast<std::size_t>(op.layer)][static_cast<std::size_t>(group)];
}

}  // namespace dovetail::exec
