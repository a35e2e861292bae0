// SPDX-License-Identifier: Apache-2.0
// The ops that a page draws: of a long step those of some whole micro-batches, since browsers and files have limits.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail::reports {

// Micro-batches from `first` to `last`.
struct MicroBatches {
  int first = 0, last = 0;
};

struct DrawnOps {
  std::vector<OpId> ops;              // in order; empty: not even one micro-batch
  std::vector<MicroBatches> of_step;  // those that are drawn, in order; empty: all
};

// At most about `most` ops: those of the first, some of the middle and the last micro-batches, and all that end the
// step, such as updates. One micro-batch counts as one whole, whatever it has.
DrawnOps drawn_ops(const Schedule& schedule, std::size_t most);

// "Drawn are micro-batches 0 to 24, 243 to 267 and 487 to 511 of 512, and the end of the step; --trace FILE writes all
// operations." Empty where all are.
std::string drawn_text(const DrawnOps& drawn, const Schedule& schedule);

}  // namespace dovetail::reports
