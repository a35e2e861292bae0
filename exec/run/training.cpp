// SPDX-License-Identifier: Apache-2.0
#include "exec/run/training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "exec/reference/language.hpp"
#include "exec/reference/training.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/run/relative_error.hpp"
#include "exec/step/adam_rule.hpp"
#include "exec/step/op_operands.hpp"
#include "exec/step/tensor_use.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// The ranks of a model-parallel group hold the losses of all its words, so that the mean is that over all of them.
// The means of multi-token prediction are added, as they are in the reference.
double mean_loss(const Workload& workload, const Schedule& s, const RankValues& executor) {
  std::array<double, 2> sum_and_count{};
  for (std::size_t local = 0; local < executor.ranks().size(); ++local)
    for (const TensorId id : s.tensors.ids()) {
      const Tensor& t = s.tensors[id];
      if (t.kind != TensorKind::Loss || t.recomputed || t.rank_class != s.class_of_rank(executor.ranks()[local]))
        continue;
      for (const double loss : executor.values(local, id)) sum_and_count[0] += loss;
      if (t.layer == workload.all_layers()) sum_and_count[1] += static_cast<double>(t.elements);
    }
  executor.sum(sum_and_count);
  return sum_and_count[0] / sum_and_count[1];
}

// NaN counts as the largest.
double largest_difference(const TrainingReport& r) {
  double largest = 0;
  for (std::size_t i = 0; i < r.reference_losses.size(); ++i) {
    const double difference = std::fabs(r.losses[i] / r.reference_losses[i] - 1);
    if (std::isnan(difference) || difference > largest) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace

double weight_error(const Experiment& e, const Schedule& s, const RankValues& executor, const ModelData& expected) {
  RelativeError error;
  for (std::size_t local = 0; local < executor.ranks().size(); ++local) {
    const int rank = executor.ranks()[local];
    for (const Op& op : s.ops) {
      if (op.kind != OpKind::Update || s.class_of(op) != s.class_of_rank(rank)) continue;
      for (const UpdatedPart& part : updated_parts({s, op}, rank % e.parallelism.stage_ranks()).all) {
        const auto first = static_cast<std::size_t>(part.elements.first),
                   count = static_cast<std::size_t>(part.elements.size());
        Values reference(count);
        initial_values(e, s.tensors[part.weights], expected, rank)(part.elements.first, reference);
        error.add(executor.values(local, part.weights).data() + first, reference.data(), count);
      }
    }
  }
  return error.over(executor);
}

double training_tolerance(int steps, double of_gradients) {
  return of_gradients * std::max(1.0, steps * adam_rate);
}

void require_trainable(const Experiment& e) {
  if (e.workload.extent != Extent::Model || e.workload.phases != Phases::Training)
    throw InputError("--train: only a whole training step has a loss; add --set workload.extent=model");
}

TrainingReport train(Executor& executor, const Experiment& e, const Schedule& schedule, ModelData start,
                     const TrainingSettings& settings) {
  std::optional<ReferenceTraining> reference;
  if (settings.check) reference.emplace(e, std::move(start), rules_of(schedule));
  TrainingReport report;
  TrainingStep step;
  for (; step.number <= settings.steps; ++step.number) {
    step.batch.words = language_words(e, settings.seed, step.number);
    if (reference) {
      Reference expected = reference->step(step.batch.words);
      report.reference_losses.push_back(mean_loss(expected));
      if (executor.shares_choices()) step.routing = std::move(expected.routing);
    }
    executor.train_step(step);
    report.losses.push_back(mean_loss(e.workload, schedule, executor));
  }
  if (!reference) return report;
  report.loss_error = largest_difference(report);
  report.weight_error = weight_error(e, schedule, executor, reference->model());
  report.tolerance = settings.tolerance;
  report.ok = !settings.tolerance || report.loss_error <= *settings.tolerance;
  return report;
}

}  // namespace dovetail::exec
