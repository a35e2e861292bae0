// SPDX-License-Identifier: Apache-2.0
// How much computation holds up a stream of communication at least, whatever runs beside what.
#pragma once
#include <span>

#include "models/price/overlap.hpp"
#include "models/price/priced_schedule.hpp"

namespace dovetail::planners {

// Each second of computation delays the ops of a stream of the first rank class by at least so much:
//   time >= seconds of the stream's ops + drag * (seconds of computation - fixed times of the stream's ops).
// If computation keeps all of its speed beside kind k and k keeps s, k runs at s at most while computation runs, and
// drag is the least 1 - s of the stream's kinds. This takes each kind to run on one stream alone: two ops of a kind
// share its interference. Without that, where computation is slowed itself, and on described networks, drag is 0.
double drag_of(const PricedSchedule& priced, StreamId stream, std::span<const Interference> pairs);

}  // namespace dovetail::planners
