// SPDX-License-Identifier: Apache-2.0
// Aggregation without strided copies: at each level a rank swaps, in place, the blocks of its part's members. All but
// the outermost level send many short messages (Tutel section 3.4).
#include <functional>
#include <numeric>

#include "models/plan/collectives/all_to_all.hpp"

namespace dovetail {

std::vector<CollectiveStep> naive_local_steps(Levels levels) {
  if (levels.size() < 2) return linear_steps(levels);
  std::vector<CollectiveStep> steps;
  int outer = std::accumulate(levels.begin(), levels.end(), 1, std::multiplies<>()), stride = 1;
  for (int size : levels) {
    outer /= size;
    steps.push_back(exchange_step({stride, size}, outer, stride));
    stride *= size;
  }
  return steps;
}

}  // namespace dovetail
