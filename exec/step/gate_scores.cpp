// SPDX-License-Identifier: Apache-2.0
#include "exec/step/gate_scores.hpp"

#include <algorithm>
#include <cmath>

namespace dovetail::exec {
namespace {

using Values = std::vector<double>;

// The softmax of keep_top_k is the softmax over all experts divided by its sum over those kept.
bool divides_by_sum(const LayerShape& s) {
  return s.gate.renormalise || s.gate.kind == GateKind::Gshard;
}

std::size_t place_of(const LayerShape& s, const Choice& c) {
  return static_cast<std::size_t>(c.token * s.experts + c.expert);
}

Values sums_by_token(const LayerShape& s, const Values& scores, const Routing& routing) {
  Values sum(scores.size() / static_cast<std::size_t>(s.experts));
  for (const Choice& c : routing) sum[static_cast<std::size_t>(c.token)] += scores[place_of(s, c)];
  return sum;
}

// d <- p (d - p . d), along one softmax.
void probability_backward(std::span<const double> p, std::span<double> d) {
  double mean = 0;
  for (std::size_t i = 0; i < p.size(); ++i) mean += p[i] * d[i];
  for (std::size_t i = 0; i < p.size(); ++i) d[i] = p[i] * (d[i] - mean);
}

// Calls do(column of a, column of b) on copies of matching columns, and puts the second back.
template <class Do>
void for_each_column(const Values& a, Values& b, std::size_t cols, Do act) {
  const std::size_t rows = b.size() / cols;
  Values of_a(rows), of_b(rows);
  for (std::size_t j = 0; j < cols; ++j) {
    for (std::size_t i = 0; i < rows; ++i) {
      of_a[i] = a[i * cols + j];
      of_b[i] = b[i * cols + j];
    }
    act(std::span<const double>(of_a), std::span<double>(of_b));
    for (std::size_t i = 0; i < rows; ++i) b[i * cols + j] = of_b[i];
  }
}

}  // namespace

void softmax(std::span<double> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (double& x : logits) sum += x = std::exp(x - largest);
  for (double& x : logits) x /= sum;
}

Values expert_scores(const LayerShape& s, Values logits) {
  if (s.gate.kind == GateKind::Sigmoid) {
    for (double& x : logits) x = 1 / (1 + std::exp(-x));
    return logits;
  }
  const auto n = static_cast<std::size_t>(s.experts);
  for (std::size_t first = 0; first < logits.size(); first += n) softmax({&logits[first], n});
  return logits;
}

Values choice_scores(const LayerShape& s, const Values& scores, const Routing& routing) {
  Values result;
  for (const Choice& c : routing) result.push_back(scores[place_of(s, c)]);
  if (!divides_by_sum(s)) return result;
  const Values sum = sums_by_token(s, scores, routing);
  for (std::size_t i = 0; i < routing.size(); ++i) result[i] /= sum[static_cast<std::size_t>(routing[i].token)];
  return result;
}

Values choice_scores_backward(const LayerShape& s, const Values& scores, const Routing& routing,
                              const Values& d_scores) {
  Values d(scores.size());
  for (std::size_t i = 0; i < routing.size(); ++i) d[place_of(s, routing[i])] += d_scores[i];
  if (divides_by_sum(s)) {  // a_i / A: (d_i - sum d_j a_j / A) / A
    const Values sum = sums_by_token(s, scores, routing);
    Values mean(sum.size());
    for (std::size_t i = 0; i < routing.size(); ++i) {
      const auto t = static_cast<std::size_t>(routing[i].token);
      mean[t] += d_scores[i] * (scores[place_of(s, routing[i])] / sum[t]);  // so that a score that is always 1 has none
    }
    for (const Choice& c : routing) {
      const auto t = static_cast<std::size_t>(c.token);
      d[place_of(s, c)] = (d[place_of(s, c)] - mean[t]) / sum[t];
    }
  }
  if (s.gate.kind == GateKind::Sigmoid) {
    for (std::size_t i = 0; i < d.size(); ++i) d[i] *= scores[i] * (1 - scores[i]);
    return d;
  }
  const auto n = static_cast<std::size_t>(s.experts);
  for (std::size_t first = 0; first < d.size(); first += n) probability_backward({&scores[first], n}, {&d[first], n});
  return d;
}

SoftWeights soft_weights(const LayerShape& s, const Values& logits) {
  const auto slots = static_cast<std::size_t>(s.slots());
  SoftWeights w{logits, logits};
  for_each_column(logits, w.dispatch, slots,
                  [](std::span<const double>, std::span<double> column) { softmax(column); });
  for (std::size_t first = 0; first < logits.size(); first += slots) softmax({&w.combine[first], slots});
  return w;
}

Values soft_weights_backward(const LayerShape& s, const SoftWeights& weights, const SoftWeights& gradient) {
  const auto slots = static_cast<std::size_t>(s.slots());
  Values d = gradient.dispatch, d_combine = gradient.combine;
  for_each_column(weights.dispatch, d, slots, probability_backward);
  for (std::size_t first = 0; first < d.size(); first += slots)
    probability_backward({&weights.combine[first], slots}, {&d_combine[first], slots});
  for (std::size_t i = 0; i < d.size(); ++i) d[i] += d_combine[i];
  return d;
}

}  // namespace dovetail::exec
