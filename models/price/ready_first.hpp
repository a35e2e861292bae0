// SPDX-License-Identifier: Apache-2.0
// Order ready_first, made from the priced schedule of another order.
#pragma once
#include "models/price/priced_schedule.hpp"

namespace dovetail {

// The same ops and dependencies. Compute keeps its order; every other stream takes, whenever it is free, whichever op
// of its queue is ready (ties: the oldest).
Schedule ready_first(const PricedSchedule& priced);

}  // namespace dovetail
