// naive_local from the outermost level inwards: ranks of the same number in each part swap blocks first, over their own
// rail, and parts distribute them afterwards.
#include "models/plan/collectives/all_to_all.hpp"

namespace dovetail {

std::vector<CollectiveStep> rail_first_steps(Levels levels) {
  std::vector<CollectiveStep> steps = naive_local_steps(levels);
  return {steps.rbegin(), steps.rend()};
}

}  // namespace dovetail
