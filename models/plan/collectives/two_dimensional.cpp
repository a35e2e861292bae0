// SPDX-License-Identifier: Apache-2.0
// 2DH (Tutel algorithm 3), for any number of levels: before the exchange at each level a strided copy puts the blocks
// of each peer next to one another, so that it gets one long message.
#include <functional>
#include <numeric>

#include "models/plan/collectives/all_to_all.hpp"

namespace dovetail {

// With d the places of targets and s of sources, level 0 fastest: the copy before level k turns
// (s[k-1]; d[last] .. d[k+1]; d[k]; s[k-2] .. s[0]) into (d[k]; d[last] .. d[k+1]; s[k-1]; s[k-2] .. s[0]).
std::vector<CollectiveStep> two_dimensional_steps(Levels levels) {
  if (levels.size() < 2) return linear_steps(levels);
  std::vector<CollectiveStep> steps;
  const int ranks = std::accumulate(levels.begin(), levels.end(), 1, std::multiplies<>());
  int inside = 1, previous = 1;  // the parts below this level: their ranks; the size of the last
  for (int size : levels) {
    steps.push_back(copy_step(previous, ranks / (inside * size), size, inside / previous));
    steps.push_back(exchange_step({inside, size}, 1, ranks / size));
    inside *= size;
    previous = size;
  }
  return steps;
}

}  // namespace dovetail
