// SPDX-License-Identifier: Apache-2.0
// Finds activities of a priced schedule that may slow each other, and how long they then take.
#pragma once
#include <span>
#include <vector>

#include "models/price/priced_schedule.hpp"

namespace dovetail {

// Whether the activities of each resource may run slower than alone: ops of several streams demand it and may meet
// there, or its speed changes.
std::vector<bool> shared_resources(const PricedSchedule& priced);

// Whether any resource is contended: the value of PricedSchedule::contended.
bool is_contended(const PricedSchedule& priced);

// When each of these activities ends if they begin together at 0 and nothing else runs: an op's `duration` is its fixed
// time and the latest of its activities, with those of its twins in other rank classes beside them.
std::vector<Seconds> ends_together(const PricedSchedule& priced, std::span<const ActivityId> activities);

}  // namespace dovetail
