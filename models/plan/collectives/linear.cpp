// SPDX-License-Identifier: Apache-2.0
// Every rank sends a message to every other.
#include <functional>
#include <numeric>

#include "models/plan/collectives/all_to_all.hpp"

namespace dovetail {

std::vector<CollectiveStep> linear_steps(Levels levels) {
  const int ranks = std::accumulate(levels.begin(), levels.end(), 1, std::multiplies<>());
  return {exchange_step({1, ranks}, 1, 1)};
}

}  // namespace dovetail
