// SPDX-License-Identifier: Apache-2.0
// Small layers, random matrices and finite differences for the tests of exec.
#pragma once
#include <functional>
#include <random>
#include <vector>

#include "exec/step/layer_shape.hpp"
#include "exec/step/matrix.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::test {

using Values = std::vector<double>;

Values random_values(std::size_t count, unsigned seed, double deviation = 1);

template <class Scalar = double>
exec::Matrix<Scalar> matrix(std::vector<Scalar>& values, std::int64_t cols) {
  return {values.data(), static_cast<std::int64_t>(values.size()) / cols, cols};
}
inline exec::Matrix<const double> matrix(const Values& values, std::int64_t cols) {
  return {values.data(), static_cast<std::int64_t>(values.size()) / cols, cols};
}

double dot(const Values& a, const Values& b);

// The largest difference between `gradient` and central differences of `loss` over the elements of `at`,
// relative to the largest gradient. `loss` reads `at`.
double gradient_error(Values& at, const Values& gradient, const std::function<double()>& loss);

// An experiment of a few tokens: `ranks` ranks in nodes of `gpus_per_node`.
struct SmallExperiment {
  int dp = 1, mp = 1, edp = 1, ep = 1, esp = 1, pp = 1;
  int layers = 1, batch = 1, sequence = 16, experts = 4, top_k = 2;
  int hidden = 8, expert_hidden = 16, heads = 4, kv_heads = 4, head_size = 4;
  double capacity_factor = 1.25;
  ExpertKind kind = ExpertKind::Ffn;
  Phases phases = Phases::Training;
};
Experiment small_experiment(const SmallExperiment& sizes);

}  // namespace dovetail::test
