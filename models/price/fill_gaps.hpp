// SPDX-License-Identifier: Apache-2.0
// Gradients of weights in the gaps of computation (plan.delay_weight_gradient fill), made from the priced schedule of
// all delayed ones. Lancet (arXiv 2404.19429) schedules them so beside all-to-alls.
#pragma once
#include "models/price/priced_schedule.hpp"

namespace dovetail {

// The same ops. Whatever makes no gradients of weights keeps its order on its stream. In the time for which all wait
// come gradients of weights that are ready and done by then, the oldest first. The rest comes where an op needs it, or
// when the next micro-batch has come to the same op, which bounds the memory.
Schedule fill_gaps(const PricedSchedule& priced);

// Makes dependencies of what ops have waited for by the places of gradients of weights, so that these may leave them:
// the schedule whose ops fill_gaps() orders.
void free_gradients_of_weights(Schedule& schedule);

}  // namespace dovetail
