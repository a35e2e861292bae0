// SPDX-License-Identifier: Apache-2.0
// The ring of a native collective: where a rank passes data on to.
#pragma once
#include "models/question/parallelism.hpp"

namespace dovetail {

// Within its node, and to the next node of its group; -1: nowhere. The shares are of each byte that a rank passes on.
struct RingHops {
  int inside = -1, outside = -1;
  double share_inside = 0, share_outside = 0;
};

// The hops of one rank of a group (see group_comb) in a cluster with `node` GPUs on each node.
RingHops ring_hops(Subgroup group, int rank, int node);

}  // namespace dovetail
