// SPDX-License-Identifier: Apache-2.0
// Priced schedules made of others. Nothing else changes the costs of a schedule once they are set.
#pragma once
#include <functional>

#include "models/price/priced_schedule.hpp"

namespace dovetail {

// The same schedule in which each op takes its new duration whatever runs beside it: nothing is shared, and launches
// take the host no time.
PricedSchedule with_durations(const PricedSchedule& priced, IdVector<OpId, Seconds> durations);

// The same schedule in which the ops of these kinds take no time.
PricedSchedule without_cost_of(PricedSchedule priced, const std::function<bool(OpKind)>& free);

}  // namespace dovetail
