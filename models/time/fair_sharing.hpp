// SPDX-License-Identifier: Apache-2.0
// Runs a schedule whose activities may meet on a resource and share it fairly (price/sharing.hpp).
#pragma once
#include "models/time/timeline.hpp"

namespace dovetail {

// When each op of the schedule runs. First the fixed time of an op passes, then its activities.
Timeline run_sharing(const PricedSchedule& priced);

}  // namespace dovetail
