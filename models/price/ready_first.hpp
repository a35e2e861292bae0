// SPDX-License-Identifier: Apache-2.0
// Order ready_first: FIFO streams need an order that is fixed and the same on all ranks, so it is made ahead, from the
// priced schedule of another order.
#pragma once
#include "models/price/priced_schedule.hpp"

namespace dovetail {

// The same ops and dependencies. Compute keeps its order; every other stream takes, whenever it is free, whichever op
// of its queue is ready (ties: the oldest), each op taking its duration alone.
Schedule ready_first(const PricedSchedule& priced);

// The same ops and dependencies, op order[i] as number i.
Schedule reordered(const Schedule& schedule, std::span<const OpId> order);

}  // namespace dovetail
