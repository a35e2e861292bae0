// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/exec_support.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/experiments.hpp"

namespace dovetail::test {

Values random_values(std::size_t count, unsigned seed, double deviation) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, deviation);
  Values values(count);
  for (double& x : values) x = normal(engine);
  return values;
}

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double gradient_error(Values& at, const Values& gradient, const std::function<double()>& loss) {
  constexpr double step = 1e-5;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double before = at[i];
    at[i] = before + step;
    const double above = loss();
    at[i] = before - step;
    const double below = loss();
    at[i] = before;
    largest = std::max(largest, std::fabs(gradient[i]));
    difference = std::max(difference, std::fabs((above - below) / (2 * step) - gradient[i]));
  }
  return largest == 0 ? difference : difference / largest;
}

Experiment small_experiment(const SmallExperiment& s) {
  Experiment e = round_numbers(s.layers);
  const int ranks = s.pp * s.dp * s.mp;
  e.cluster.gpus_per_node = s.mp;
  e.cluster.nodes = ranks / s.mp;
  e.model = {"small",   "",      s.layers,        s.hidden, {s.heads, s.kv_heads, s.head_size},
             s.experts, s.top_k, s.expert_hidden, s.kind,   0};
  e.workload = {s.batch, s.sequence, s.layers, s.top_k, s.capacity_factor, DType::Fp32, s.phases};
  e.parallelism = {s.dp, s.mp, s.ep, s.esp, s.pp, s.edp};
  return e;
}

}  // namespace dovetail::test
