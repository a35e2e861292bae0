// Ops that run at the same time and demand the same resource share it fairly: each resource divides what it has evenly
// among the flows on it, an op progresses as its slowest demand allows, and what it leaves goes to the others.
#pragma once
#include "models/timeline.hpp"

namespace dovetail {

// By resource: whether ops of several streams demand it, so that they may meet there.
std::vector<bool> shared_resources(const PricedSchedule& priced);

// When each op of the schedule runs. First the fixed time of an op passes, then its demands.
Timeline run_sharing(const PricedSchedule& priced);

}  // namespace dovetail
