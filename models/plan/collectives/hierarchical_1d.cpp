// SPDX-License-Identifier: Apache-2.0
// Through one leader per node: it gathers its node's blocks, sorts them by node, exchanges with the other leaders,
// sorts by rank and scatters (Hetu). Outer levels count as one.
#include <functional>
#include <numeric>

#include "models/plan/collectives/all_to_all.hpp"

namespace dovetail {

std::vector<CollectiveStep> hierarchical_1d_steps(Levels levels) {
  if (levels.size() < 2) return linear_steps(levels);
  const int local = levels[0];
  const int nodes = std::accumulate(levels.begin() + 1, levels.end(), 1, std::multiplies<>());
  const int ranks = local * nodes;
  const auto by_leaders = [&](CollectiveStep step) {
    step.every = local;
    return step;
  };
  const CollectiveStep gather{StepKind::Gather, {1, local}, 1, 1, 1, local, ranks};
  CollectiveStep scatter = gather;
  scatter.kind = StepKind::Scatter;
  return {gather,                                         // (source, node, target)
          by_leaders(copy_step(local, 1, nodes, local)),  // (node, source, target)
          by_leaders(exchange_step({local, nodes}, 1, std::int64_t{local} * local)),
          by_leaders(copy_step(ranks, 1, local, 1)),  // (target, node, source)
          scatter};
}

}  // namespace dovetail
