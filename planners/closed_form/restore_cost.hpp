// SPDX-License-Identifier: Apache-2.0
// The cost of a strategy to restore activations in closed form (MPipeMoE eq. 10).
#pragma once
#include <span>

#include "models/price/overlap.hpp"
#include "models/price/price.hpp"

namespace dovetail::planners {

// The time of the experts, all-to-alls and copies of all MoE layers. Each pass takes as long as the slowest of compute,
// communication and copies. Their work is that of the schedule's ops (the counts of Table II). Each kind runs at the
// speed that `interference` leaves it beside the slowest other kind that the strategy runs: mu without copies, mu_all
// and eta_all with them.
Seconds restore_cost(const PricedSchedule& priced, std::span<const Interference> interference);

}  // namespace dovetail::planners
