// SPDX-License-Identifier: Apache-2.0
#include "exec/run/numerics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "exec/run/relative_error.hpp"
#include "exec/step/wire_format.hpp"
#include "models/base/errors.hpp"
#include "models/question/capacity.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::exec {
namespace {

// NaN wins, unlike in std::max.
double worse(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

class Comparison {
 public:
  Comparison(const Experiment& e, const Schedule& s, const RankValues& executor, const Reference& reference)
      : e_(e),
        part_(one_micro_batch(e, s.micro_batches)),
        s_(s),
        executor_(executor),
        reference_(reference),
        layout_(e.workload, e.parallelism, s.virtual_stages, s.stage_shape),
        ends_(end_volumes(e, layout_)) {
    for (int rank : executor.ranks())
      updated_.push_back(updated_ranges(s, s.class_of_rank(rank), rank % e.parallelism.stage_ranks()));
  }

  NumericsReport report() const {
    NumericsReport r;
    const int layers = e_.workload.all_layers();
    r.reference_dropped = reference_.dropped;
    r.dropped = drops();
    r.output_error = output_error(reference_);
    if (ends_.exist()) r.output_error = worse(loss_error(), r.output_error);
    if (reference_.gradients.empty()) return r;
    r.input_gradient_error = tokens_error(&StageLayout::begins_at, input_gradient_parts(), reference_.input_gradient);
    for (int layer = 0; layer < layers; ++layer) {
      r.dense_gradient_error = worse(dense_error(layer), r.dense_gradient_error);
      if (whole_layers()) r.dense_gradient_error = worse(replicated_error(layer, Alike::Norms), r.dense_gradient_error);
      if (!e_.model.is_moe(layer)) continue;
      r.router_gradient_error =
          worse(whole_layers() ? replicated_error(layer, Alike::Router) : router_error(layer), r.router_gradient_error);
      r.expert_gradient_error = worse(expert_error(layer), r.expert_gradient_error);
    }
    if (ends_.exist()) r.dense_gradient_error = worse(end_error(), r.dense_gradient_error);
    if (e_.workload.clips()) r.gradient_norm_error = norm_error();
    return r;
  }

  double output_error(const Reference& reference) const {
    return tokens_error(&StageLayout::ends_at, {{TensorKind::LayerInput, false, e_.workload.layers}}, reference.output);
  }

 private:
  struct Result {
    TensorKind kind;
    bool gradient;
    int layer;
  };

  // The values of all chunks of the result on one rank, empty if there is none.
  Values find(std::size_t local, const Result& result, int micro_batch = 0) const {
    Values values;
    const int rank_class = s_.class_of_rank(executor_.ranks()[local]);
    for (const TensorId i : s_.tensors.ids()) {
      const Tensor& t = s_.tensors[i];
      if (t.kind != result.kind || t.gradient != result.gradient || t.layer != result.layer) continue;
      if (t.recomputed) continue;  // the same values once more
      if (t.micro_batch != micro_batch || t.rank_class != rank_class) continue;
      const Values of_chunk = executor_.values(local, i);
      values.insert(values.end(), of_chunk.begin(), of_chunk.end());
      // It is in no chunks, and the layer before made the first one. Multi-token prediction adds others.
      if (t.kind == TensorKind::LayerInput) break;
    }
    return values;
  }

  // Adds the errors of a persistent gradient from element `first` on, of those elements that the rank has the sums of.
  void add_sums(std::size_t local, TensorKind kind, int layer, std::int64_t first, std::span<const double> expected,
                RelativeError& error) const {
    const int rank_class = s_.class_of_rank(executor_.ranks()[local]);
    TensorId id;
    for (const TensorId i : s_.tensors.ids())
      if (const Tensor& t = s_.tensors[i];
          t.persistent && t.kind == kind && t.layer == layer && t.rank_class == rank_class)
        id = i;
    check(id.exists(), "the schedule lacks a gradient");
    const Values values = executor_.values(local, id);
    const RowRange all{first, first + std::ssize(expected)};
    check(all.last <= std::ssize(values), "gradients of another shape than the reference");
    for (const RowRange& part : intersect(updated_[local][id], all))
      error.add(&values.at(static_cast<std::size_t>(part.first)),
                &expected[static_cast<std::size_t>(part.first - first)], static_cast<std::size_t>(part.size()));
  }

  // visit(index into the executor's ranks, rank within the stage) for the ranks of a stage.
  template <class Visit>
  void for_each_rank(int stage, Visit visit) const {
    const int ranks = e_.parallelism.stage_ranks();
    for (std::size_t local = 0; local < executor_.ranks().size(); ++local)
      if (const int rank = executor_.ranks()[local]; rank / ranks == stage) visit(local, rank % ranks);
  }
  // One rank of those that repeat the work on the same tokens.
  bool holds_own(int rank) const { return rank % e_.parallelism.token_repeats() == 0; }
  // visit(stage) for the stages that have a layer, of which there are two with two pipelines.
  template <class Visit>
  void for_each_holder(int layer, Visit visit) const {
    for_each_twin(layout_.stage_of(layer), visit);
  }
  // For a stage and the other one that has the same weights.
  template <class Visit>
  void for_each_twin(int stage, Visit visit) const {
    visit(stage);
    if (const int twin = layout_.twin_of(stage); twin != stage) visit(twin);
  }
  template <class Error>
  double worst_of_holders(int layer, Error error_in) const {
    double worst = 0;
    for_each_holder(layer, [&](int stage) { worst = worse(error_in(stage), worst); });
    return worst;
  }
  using StageOfPipeline = int (StageLayout::*)(int) const;
  int stage_of(int micro_batch, StageOfPipeline of) const {
    return (layout_.*of)(micro_batch / (s_.micro_batches / layout_.pipelines()));
  }

  std::int64_t drops() const {
    std::int64_t dropped = 0;
    for (int layer = 0; layer < e_.workload.all_layers(); ++layer)
      for_each_holder(layer, [&](int stage) { dropped += drops(layer, stage); });
    double of_all = static_cast<double>(dropped);
    executor_.sum({&of_all, 1});
    return static_cast<std::int64_t>(of_all);
  }
  std::int64_t drops(int layer, int stage) const {
    std::int64_t dropped = 0;
    for_each_rank(stage, [&](std::size_t local, int rank) {
      if (!holds_own(rank)) return;
      for (int micro_batch = 0; micro_batch < s_.micro_batches && e_.model.is_moe(layer); ++micro_batch) {
        const Values routing = find(local, {TensorKind::Routing, false, layer}, micro_batch);
        for (std::size_t i = 1; i < routing.size(); i += 3) dropped += routing[i] < 0;
      }
    });
    return dropped;
  }

  std::vector<Result> input_gradient_parts() const {
    // The embedding's stage may have no layer of its own, and gets the whole gradient then.
    if (whole_layers() || layout_.run(0).empty()) return {{TensorKind::LayerInput, true, 0}};
    const auto is_sum = [](const Tensor& t) { return t.kind == TensorKind::AttentionSumGradient && t.layer == 0; };
    const Result sum{TensorKind::AttentionSumGradient, false, 0}, own{TensorKind::AttentionInput, true, 0};
    return {{TensorKind::MoeInput, true, 0}, std::ranges::any_of(s_.tensors, is_sum) ? sum : own};
  }

  // The error of the sum of tensors (T, M) of each micro-batch, in that stage of its pipeline, against the ranks' parts
  // of `expected`.
  double tokens_error(StageOfPipeline stage, const std::vector<Result>& parts, const Values& expected) const {
    RelativeError error;
    for (int micro_batch = 0; micro_batch < s_.micro_batches; ++micro_batch)
      for_each_rank(stage_of(micro_batch, stage), [&](std::size_t local, int rank) {
        Values sum = find(local, parts.front(), micro_batch);
        check(!sum.empty(), fmt::format("the schedule lacks {} of layer {}, which results are read from",
                                        name_in(tensor_kind_names, parts.front().kind), parts.front().layer));
        for (std::size_t i = 1; i < parts.size(); ++i)
          std::ranges::transform(sum, find(local, parts[i], micro_batch), sum.begin(), std::plus());
        const auto part =
            static_cast<std::size_t>(micro_batch) * static_cast<std::size_t>(e_.parallelism.token_ranks()) +
            static_cast<std::size_t>(rank / e_.parallelism.token_repeats());
        error.add(sum.data(), &expected.at(part * sum.size()), sum.size());
      });
    return error.over(executor_);
  }

  double dense_error(int layer) const {
    return worst_of_holders(layer, [&](int stage) { return dense_error(layer, stage); });
  }
  double dense_error(int layer, int stage) const {
    RelativeError error;
    std::int64_t later = layout_.has_end(stage) ? ends_.head_parameters : 0;
    for (int l : layout_.layers_of(stage)) later += l > layer ? layer_volumes(part_, l).dense_parameters : 0;
    for_each_rank(stage, [&](std::size_t local, int rank) {
      add_sums(local, TensorKind::DenseGradients, first_layer(stage), later, dense_shard(e_, gradients(layer), rank),
               error);
    });
    return error.over(executor_);
  }

  bool whole_layers() const { return e_.workload.whole_layers(); }

  int first_layer(int stage) const { return layout_.layers_of(stage).front(); }

  // All ranks hold the whole sum.
  enum class Alike { Norms, Router };
  double replicated_error(int layer, Alike which) const {
    return worst_of_holders(layer, [&](int stage) {
      std::int64_t first = which == Alike::Router ? layer_volumes(part_, layer).norm_parameters : 0;
      for (int l : layout_.layers_of(stage)) first += l < layer ? layer_volumes(part_, l).replicated_parameters() : 0;
      return replicated_error(stage, first, which == Alike::Router ? gradients(layer).router : gradients(layer).norm);
    });
  }
  double replicated_error(int stage, std::int64_t first, const Values& expected) const {
    RelativeError error;
    for_each_rank(stage, [&](std::size_t local, int) {
      add_sums(local, TensorKind::ReplicatedGradients, first_layer(stage), first, expected, error);
    });
    return error.over(executor_);
  }

  // The error of the embedding, the output head and the final norm. Each rank has the words of its place in its group.
  double end_error() const {
    const auto words_error = [&](int stage, bool at_end, const Values& expected) {
      RelativeError error;
      for_each_rank(stage, [&](std::size_t local, int rank) {
        const auto size = static_cast<std::size_t>(ends_.embedding_parameters),
                   part = static_cast<std::size_t>(rank % e_.parallelism.mp);
        add_sums(local, TensorKind::DenseGradients, first_layer(stage), at_end ? embedding_gradients(stage) : 0,
                 std::span(expected).subspan(part * size, size), error);
      });
      return error.over(executor_);
    };
    const EndWeights& expected = reference_.end_gradients;
    double worst = 0;
    const auto add = [&](double error) { worst = worse(error, worst); };
    for_each_twin(layout_.begins_at(), [&](int stage) { add(words_error(stage, true, expected.embedding)); });
    for_each_twin(layout_.ends_at(), [&](int stage) {
      std::int64_t before = 0;
      for (int l : layout_.layers_of(stage)) before += layer_volumes(part_, l).replicated_parameters();
      add(replicated_error(stage, before, expected.norm));
      if (ends_.embedding_twice) add(words_error(stage, true, expected.embedding));  // both stages have the sum
      if (!ends_.share_weights()) add(words_error(stage, false, expected.head));
    });
    return worst;
  }

  // The first element of the embedding's among the dense gradients of a stage that has it.
  std::int64_t embedding_gradients(int stage) const {
    std::int64_t first = layout_.has_end(stage) ? ends_.head_parameters : 0;
    for (int l : layout_.layers_of(stage)) first += layer_volumes(part_, l).dense_parameters;
    return first;
  }

  double loss_error() const {
    double worst = loss_error(e_.workload.all_layers(), reference_.loss);
    for (int layer = e_.workload.layers; layer < e_.workload.all_layers(); ++layer)
      worst = worse(
          loss_error(layer, reference_.further_losses.at(static_cast<std::size_t>(layer - e_.workload.layers))), worst);
    return worst;
  }
  // Losses by position; every rank of a model-parallel group has all of the group's.
  double loss_error(int layer, const Values& expected) const {
    RelativeError error;
    const std::vector<std::int64_t> rows = token_rows(layer_volumes(part_), rules_of(s_).token_chunks);
    for (int micro_batch = 0; micro_batch < s_.micro_batches; ++micro_batch)
      for_each_rank(stage_of(micro_batch, &StageLayout::ends_at), [&](std::size_t local, int rank) {
        const Values held = find(local, {TensorKind::Loss, false, layer}, micro_batch);
        const auto group =
            static_cast<std::size_t>(std::int64_t{micro_batch} * e_.parallelism.dp + rank / e_.parallelism.mp);
        Values loss;
        for (const std::int64_t row : rows) loss.push_back(held.at(static_cast<std::size_t>(row)));
        error.add(loss.data(), &expected.at(group * loss.size()), loss.size());
      });
    return error.over(executor_);
  }

  // Every rank of every stage has the square of the whole norm.
  double norm_error() const {
    RelativeError error;
    const Values expected{gradient_norm(reference_)};
    for (int stage = 0; stage < layout_.stages(); ++stage)
      for_each_rank(stage, [&](std::size_t local, int) {
        Values squares = find(local, {TensorKind::SquaresOfAll, false, first_layer(stage)});
        if (squares.empty()) squares = find(local, {TensorKind::GradientSquares, false, first_layer(stage)});
        error.add({std::sqrt(squares.at(0))}, expected);
      });
    return error.over(executor_);
  }

  // Each rank holds its own tokens' part of the sum.
  double router_error(int layer) const {
    return worst_of_holders(layer, [&](int stage) { return router_error(layer, stage); });
  }
  double router_error(int layer, int stage) const {
    Values sum(gradients(layer).router.size());
    for_each_rank(stage, [&](std::size_t local, int rank) {
      if (!holds_own(rank)) return;
      std::ranges::transform(sum, find(local, {TensorKind::RouterGradient, false, layer}), sum.begin(), std::plus());
    });
    executor_.sum(sum);
    RelativeError error;
    error.add(sum, gradients(layer).router);
    return error.over(executor_);
  }

  double expert_error(int layer) const {
    return worst_of_holders(layer, [&](int stage) { return expert_error(layer, stage); });
  }
  double expert_error(int layer, int stage) const {
    RelativeError error;
    for_each_rank(stage, [&](std::size_t local, int rank) {
      add_sums(local, TensorKind::ExpertGradient, layer, 0, expert_shard(e_, gradients(layer), rank), error);
    });
    return error.over(executor_);
  }

  const LayerWeights& gradients(int layer) const { return reference_.gradients[static_cast<std::size_t>(layer)]; }

  const Experiment& e_;
  const Experiment part_;  // of one micro-batch, on which the weights of some gates depend
  const Schedule& s_;
  const RankValues& executor_;
  const Reference& reference_;
  const StageLayout layout_;
  const EndVolumes ends_;
  std::vector<IdVector<TensorId, std::vector<RowRange>>> updated_;  // by the executor's ranks
};

}  // namespace

double NumericsReport::gradient_error() const {
  return worse(worse(worse(input_gradient_error, dense_gradient_error), gradient_norm_error),
               worse(router_gradient_error, expert_gradient_error));
}

bool NumericsReport::ok(double tolerance) const {
  return output_error <= tolerance && gradient_error() <= tolerance && dropped == reference_dropped;
}

double tolerance_of(Element element, const ComputeRules& rules) {
  if (element == Element::Double) return 1e-12;
  const double spacing = std::max(spacing_of(rules.dispatch), spacing_of(rules.combine));
  return rules.rounds() ? std::sqrt(1e-5 * spacing) : 1e-5;
}

NumericsReport compare(const Experiment& experiment, const Schedule& schedule, const RankValues& executor,
                       const Reference& reference, const Reference* without_rounding) {
  const Comparison comparison(experiment, schedule, executor, reference);
  NumericsReport report = comparison.report();
  if (without_rounding != nullptr) report.rounding_error = comparison.output_error(*without_rounding);
  return report;
}

}  // namespace dovetail::exec
