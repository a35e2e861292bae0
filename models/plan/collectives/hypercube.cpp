// 2DH over every prime factor of the levels: few ranks exchange at a time, in as few and as long messages as can be. In
// groups of a power of two these are the dimensions of a hypercube (Johnsson and Ho 1989).
#include "models/plan/collectives/all_to_all.hpp"

namespace dovetail {

std::vector<CollectiveStep> hypercube_steps(Levels levels) {
  if (levels.size() < 2) return linear_steps(levels);
  std::vector<int> factors;
  for (int size : levels)
    for (int factor = 2; size > 1; ++factor)
      for (; size % factor == 0; size /= factor) factors.push_back(factor);
  return two_dimensional_steps(factors);
}

}  // namespace dovetail
