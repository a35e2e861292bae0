// SPDX-License-Identifier: Apache-2.0
// An all-to-all of the user's own (FSMoE section 3.1: Dispatch and Combine), as a list of steps over the ranks that
// share experts. A class that derives from CustomAllToAll takes the place of plan.all_to_all linear, in both directions
// and both passes. Steps are data, so executors run them and simulators price them as any other algorithm's.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace dovetail {

struct CollectiveStep;  // models/plan/collectives/step.hpp

class CustomAllToAll {
 public:
  virtual ~CustomAllToAll() = default;
  virtual std::string name() const = 0;

  // `levels`: sizes of the group's nested parts, innermost first, each above 1: the ranks on a node and the nodes, or
  // what plan.all_to_all_levels says. Rank r is number r % levels[0] of part r / levels[0]. Every rank has a block for
  // every rank, in group order; the steps must leave each rank with the blocks for it, in the order of their sources.
  // A plan whose steps do not is refused with what went wrong.
  virtual std::vector<CollectiveStep> steps(std::span<const int> levels) const = 0;
};

}  // namespace dovetail
