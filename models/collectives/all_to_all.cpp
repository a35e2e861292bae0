#include "models/collectives/all_to_all.hpp"

#include "models/errors.hpp"

namespace dovetail {

std::vector<CollectiveStep> all_to_all_steps(AllToAll algorithm, Levels levels) {
  std::vector<int> sizes;
  for (int size : levels)
    if (size > 1) sizes.push_back(size);
  for (const auto& [name, steps] : all_to_all_algorithms)
    if (name == algorithm) return steps(sizes);
  throw InternalError("an all-to-all algorithm without steps");
}

}  // namespace dovetail
