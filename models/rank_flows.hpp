// The messages between ranks that a communication op stands for, each by itself: what a folded network counts in closed
// form.
#pragma once
#include <vector>

#include "models/experiment.hpp"
#include "models/schedule.hpp"

namespace dovetail {

struct RankFlow {
  int from = 0, to = 0;  // ranks
  Bytes bytes;
};

// Of the op in all its groups; empty where it sends nothing. A native collective is a ring with one flow for all that a
// rank passes on to the next. All steps of an exchange count at once.
std::vector<RankFlow> rank_flows(const Experiment& experiment, const Schedule& schedule, const Op& op);

// Bytes that each rank of a native collective's ring passes on.
Bytes ring_bytes(const Op& op, int ranks);

}  // namespace dovetail
