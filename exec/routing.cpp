#include "exec/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dovetail::exec {

void softmax(std::span<double> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (double& x : logits) sum += x = std::exp(x - largest);
  for (double& x : logits) x /= sum;
}

template <class Scalar>
std::vector<double> router_probabilities(Matrix<const Scalar> moe_input, Matrix<const Scalar> router_weights) {
  const auto experts = static_cast<std::size_t>(router_weights.cols);
  std::vector<double> probabilities(static_cast<std::size_t>(moe_input.rows) * experts);
  for (std::int64_t t = 0; t < moe_input.rows; ++t) {
    const std::span logits(&probabilities[static_cast<std::size_t>(t) * experts], experts);
    for (std::int64_t m = 0; m < moe_input.cols; ++m) {
      const double x = moe_input.row(t)[m];
      const Scalar* const weights = router_weights.row(m);
      for (std::size_t e = 0; e < experts; ++e) logits[e] += x * weights[e];
    }
    softmax(logits);
  }
  return probabilities;
}

template std::vector<double> router_probabilities<float>(Matrix<const float>, Matrix<const float>);
template std::vector<double> router_probabilities<double>(Matrix<const double>, Matrix<const double>);

Routing route(const std::vector<double>& probabilities, std::int64_t experts, std::int64_t top_k,
              std::int64_t capacity, std::int64_t first_slot) {
  const auto n = static_cast<std::size_t>(experts), k = static_cast<std::size_t>(top_k);
  const std::size_t tokens = probabilities.size() / n;
  Routing routing(tokens * k);
  std::vector<std::int32_t> order(n);
  for (std::size_t t = 0; t < tokens; ++t) {
    const double* const p = &probabilities[t * n];
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + top_k, order.end(),
                      [p](std::int32_t a, std::int32_t b) { return p[a] > p[b] || (p[a] == p[b] && a < b); });
    for (std::size_t j = 0; j < k; ++j) routing[t * k + j].expert = order[j];
  }
  std::vector<std::int32_t> taken(n);
  for (std::size_t j = 0; j < k; ++j)
    for (std::size_t t = 0; t < tokens; ++t) {
      Choice& choice = routing[t * k + j];
      std::int32_t& next = taken[static_cast<std::size_t>(choice.expert)];
      if (next < capacity) choice.slot = static_cast<std::int32_t>(first_slot) + next++;
    }
  return routing;
}

std::int64_t drop_count(const Routing& routing) {
  return std::ranges::count_if(routing, [](const Choice& choice) { return choice.slot < 0; });
}

}  // namespace dovetail::exec
