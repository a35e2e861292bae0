// SPDX-License-Identifier: Apache-2.0
// The period in which a pipeline repeats itself, once it is full and before it drains.
#pragma once
#include <optional>

#include "models/price/priced_schedule.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::planners {

// A span of a step that further micro-batches repeat.
struct SteadyPeriod {
  Seconds from, time;
  Seconds end() const { return from + time; }
};

// The period of the last `lag` micro-batches that the first stage begins before the pipeline drains. Each op that
// starts in the last `share` of it, on whatever stage, started the period's time earlier for the micro-batch `lag`
// before, and no stream or host has more work in a period than it takes. None: the step has not settled, or its
// micro-batches differ.
std::optional<SteadyPeriod> steady_period(const PricedSchedule& priced, const Timeline& timeline, int lag,
                                          double share = 1);

}  // namespace dovetail::planners
