// SPDX-License-Identifier: Apache-2.0
// How much each kind of link carried, and for how long, read off a timeline.
#pragma once
#include <vector>

#include "models/time/timeline.hpp"

namespace dovetail::reports {

struct LinkUse {
  int rank_class = 0;
  LinkKind link = LinkKind::Inter;
  Bytes bytes;   // sum of the messages (n of CollectiveCost) of one rank's collectives over this link
  Seconds busy;  // time with at least one of them running
};

// A collective uses the network when its group spans nodes, else the links inside a node. Only links that
// carry something, by class, inter before intra.
std::vector<LinkUse> link_use(const Experiment& experiment, const Schedule& schedule, const Timeline& timeline);

}  // namespace dovetail::reports
