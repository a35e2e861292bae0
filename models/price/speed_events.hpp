// SPDX-License-Identifier: Apache-2.0
// Puts the failures of an experiment into its priced schedule.
#pragma once
#include <span>

#include "models/price/priced_schedule.hpp"
#include "models/question/speed_event.hpp"

namespace dovetail {

// Puts the events into a priced schedule. Events of one resource that overlap multiply. Planners do not call this,
// because a plan is made before anything fails. Throws InputError for a name that the schedule's resources do not have.
void inject(std::span<const SpeedEvent> events, PricedSchedule& priced);

}  // namespace dovetail
