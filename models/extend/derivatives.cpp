// SPDX-License-Identifier: Apache-2.0
#include "models/extend/derivatives.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace dovetail {
namespace {

using Numbers = std::vector<double>;

Numbers zeros(std::int64_t count) {
  return Numbers(static_cast<std::size_t>(count));
}
Numbers random_numbers(std::mt19937_64& random, std::int64_t count) {
  std::normal_distribution<double> normal;
  Numbers numbers = zeros(count);
  for (double& number : numbers) number = normal(random);
  return numbers;
}
double product(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Differences of a loss by some numbers that it reads.
struct Differences {
  double largest_gradient = 0, largest_difference = 0;

  void compare(Numbers& at, const Numbers& gradient, const std::function<double()>& loss) {
    constexpr double step = 1e-5;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double before = at[i];
      at[i] = before + step;
      const double above = loss();
      at[i] = before - step;
      const double below = loss();
      at[i] = before;
      largest_gradient = std::max(largest_gradient, std::fabs(gradient[i]));
      largest_difference = std::max(largest_difference, std::fabs((above - below) / (2 * step) - gradient[i]));
    }
  }
  double relative() const { return largest_gradient == 0 ? largest_difference : largest_difference / largest_gradient; }
};

}  // namespace

double derivative_error(const CustomGate& gate, const GateSizes& sizes, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Numbers rows = random_numbers(random, count * sizes.hidden),
          parameters = random_numbers(random, std::max<std::int64_t>(1, gate.parameters(sizes)));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] *= gate.deviation(sizes, static_cast<std::int64_t>(i));
  const Numbers d_scores = random_numbers(random, count * sizes.top_k);
  const auto tokens = [&] { return GateTokens{0, 0, count, rows}; };
  std::vector<std::int32_t> experts(d_scores.size());
  gate.choose(sizes, tokens(), parameters, experts);
  const auto loss = [&] {
    Numbers scores = zeros(count * sizes.top_k);
    gate.score(sizes, tokens(), parameters, experts, scores);
    return product(scores, d_scores);
  };
  Numbers d_rows = zeros(count * sizes.hidden), d_parameters(parameters.size());
  gate.score_backward(sizes, tokens(), parameters, experts, d_scores, d_rows, d_parameters);
  Differences differences;
  differences.compare(rows, d_rows, loss);
  differences.compare(parameters, d_parameters, loss);
  return differences.relative();
}

double derivative_error(const CustomExpert& expert, const ExpertSizes& sizes, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Numbers rows = random_numbers(random, count * sizes.hidden),
          parameters = random_numbers(random, std::max<std::int64_t>(1, expert.parameters(sizes)));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] *= expert.deviation(sizes, static_cast<std::int64_t>(i));
  const Numbers d_results = random_numbers(random, count * sizes.hidden);
  Numbers kept = zeros(count * std::max<std::int64_t>(1, expert.kept(sizes)));
  const auto loss = [&] {
    Numbers results = zeros(count * sizes.hidden);
    expert.forward(sizes, rows, parameters, results, kept);
    return product(results, d_results);
  };
  loss();  // leaves what is kept
  const Numbers kept_now = kept;
  Numbers d_rows = zeros(count * sizes.hidden), d_parameters(parameters.size());
  expert.backward(sizes, rows, parameters, kept_now, d_results, d_rows, d_parameters);
  Differences differences;
  differences.compare(rows, d_rows, loss);
  differences.compare(parameters, d_parameters, loss);
  return differences.relative();
}

}  // namespace dovetail
