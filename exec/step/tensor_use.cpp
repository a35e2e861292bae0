// SPDX-License-Identifier: Apache-2.0
#include "exec/step/tensor_use.hpp"

#include <algorithm>

#include "models/question/volumes.hpp"
#include "models/schedule/operands.hpp"

namespace dovetail::exec {
namespace {

// Results are read after the step: the output, the input's gradient, and the routing for its drops.
bool is_result(const Experiment& e, const Tensor& t) {
  if (t.recomputed) return false;
  const bool through_attention = e.parallelism.mp > 1 ? t.kind == TensorKind::AttentionSumGradient
                                                      : t.kind == TensorKind::AttentionInput && t.gradient;
  if (t.layer == 0 && through_attention) return true;
  return t.kind == TensorKind::Routing || t.kind == TensorKind::Loss ||
         (t.kind == TensorKind::LayerInput && t.layer == e.workload.layers) ||
         (t.gradient && t.layer == 0 && (t.kind == TensorKind::MoeInput || t.kind == TensorKind::LayerInput));
}

}  // namespace

Numbers initial_values(const Experiment& e, const Tensor& t, const ModelData& data, int rank) {
  if (starts_at_zero(t)) return [](std::int64_t, std::span<double> to) { std::ranges::fill(to, 0); };
  switch (t.kind) {
    case TensorKind::LayerInput: {
      if (!t.persistent) return {};
      const Parallelism& p = e.parallelism;
      const int holder = rank % p.stage_ranks() / p.token_repeats();
      return [all = input_numbers(data, t.gradient), skipped = (t.micro_batch * p.token_ranks() + holder) * t.elements](
                 std::int64_t first, std::span<double> to) { all(skipped + first, to); };
    }
    case TensorKind::DenseWeights:
      return dense_numbers(e, data, t.layer, rank);
    case TensorKind::RouterWeights:
      return router_numbers(e, data, t.layer);
    case TensorKind::ExpertWeights:
      return expert_numbers(e, data, t.layer, rank);
    case TensorKind::NormWeights:
      return norm_numbers(e, data, t.layer);
    case TensorKind::EmbeddingWeights:
      return end_numbers(e, data, End::Embedding, rank);
    case TensorKind::HeadWeights:
      return end_numbers(e, data, End::Head, rank);
    case TensorKind::Tokens:
      return word_numbers(e, data, t.micro_batch,
                          static_cast<int>(2 * std::int64_t{e.workload.batch} * e.workload.sequence / t.elements),
                          rank);
    default:
      return {};
  }
}

bool starts_at_zero(const Tensor& t) {
  return t.kind == TensorKind::DenseGradients || t.kind == TensorKind::RouterGradient ||
         t.kind == TensorKind::ExpertGradient || t.kind == TensorKind::ReplicatedGradients ||
         t.kind == TensorKind::OptimizerState;
}

bool is_trained(const Tensor& t) {
  return t.persistent && (roles::weights.covers(t) || t.kind == TensorKind::OptimizerState);
}

IdVector<TensorId, std::vector<OpId>> users_until_release(const Experiment& experiment, const Schedule& schedule,
                                                          int rank_class) {
  IdVector<TensorId, std::vector<OpId>> users(schedule.tensors.size());
  IdVector<TensorId, char> is_read(schedule.tensors.size());
  for (const OpId id : schedule.ops.ids()) {
    const Op& op = schedule.ops[id];
    if (schedule.class_of(op) != rank_class) continue;
    for (TensorId read : schedule.reads_of(op)) is_read[read] = 1;
    for (const auto& operands : {schedule.reads_of(op), schedule.writes_of(op)})
      for (TensorId used : operands) users[used].push_back(id);
  }
  for (const TensorId id : schedule.tensors.ids()) {
    const Tensor& t = schedule.tensors[id];
    if (t.rank_class != rank_class || t.persistent || is_result(experiment, t) || is_read[id] == 0) users[id].clear();
  }
  return users;
}

}  // namespace dovetail::exec
