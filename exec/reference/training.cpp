// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/training.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "exec/step/adam_rule.hpp"
#include "exec/step/clip_rule.hpp"

namespace dovetail::exec {
namespace {

// All matrices of a model, or of its gradients, in the same order.
std::vector<Values*> all_matrices(std::vector<LayerWeights>& layers, EndWeights& ends) {
  std::vector<Values*> all;
  for (LayerWeights& w : layers)
    for (const Weight weight : all_weights) all.push_back(&(w.*weight));
  for (Values* const end : {&ends.embedding, &ends.head, &ends.norm}) all.push_back(end);
  return all;
}

// As the paper writes it, of a gradient times `scale`: the moments without their bias, and then the step.
void adam(int step, const Values& gradients, double scale, Values& weights, Values& mean, Values& variance) {
  mean.resize(weights.size());
  variance.resize(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double gradient = scale * gradients[i];
    mean[i] = adam_beta1 * mean[i] + (1 - adam_beta1) * gradient;
    variance[i] = adam_beta2 * variance[i] + (1 - adam_beta2) * gradient * gradient;
    const double unbiased_mean = mean[i] / (1 - std::pow(adam_beta1, step));
    const double unbiased_variance = variance[i] / (1 - std::pow(adam_beta2, step));
    weights[i] -= adam_rate * unbiased_mean / (std::sqrt(unbiased_variance) + adam_epsilon);
  }
}

}  // namespace

ReferenceTraining::ReferenceTraining(const Experiment& experiment, ModelData start, const ComputeRules& rules)
    : e_(experiment), rules_(rules), model_(std::move(start)) {}

Reference ReferenceTraining::step(Values words) {
  model_.words = std::move(words);
  Reference result = compute_reference(e_, model_, rules_);
  ++steps_;
  const std::vector<Values*> weights = all_matrices(model_.layers, model_.ends),
                             gradients = all_matrices(result.gradients, result.end_gradients);
  means_.resize(weights.size());
  variances_.resize(weights.size());
  const double largest = e_.workload.clip(), scale = largest > 0 ? clip_scale(gradient_norm(result), largest) : 1;
  for (std::size_t i = 0; i < weights.size(); ++i)
    adam(steps_, *gradients[i], scale, *weights[i], means_[i], variances_[i]);
  return result;
}

double mean_loss(const Reference& reference) {
  double sum = std::reduce(reference.loss.begin(), reference.loss.end());
  for (const Values& further : reference.further_losses) sum += std::reduce(further.begin(), further.end());
  return sum / static_cast<double>(reference.loss.size());
}

}  // namespace dovetail::exec
