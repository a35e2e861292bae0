// SPDX-License-Identifier: Apache-2.0
// The part of price() that knows the described network: what ops demand of its links and of device memory, beside their
// calibrated times.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/network/network_load.hpp"
#include "models/price/priced_schedule.hpp"

namespace dovetail {

// None where the cluster has no described network, and where ranks differ but the schedule is not split by class: a
// planner's schedule, which is priced as if all ranks were at full speed and their messages padded, or, if they lie
// unevenly, by the calibration alone.
std::optional<NetworkLoad> network_load(const Experiment& experiment, const Schedule& schedule);

// Adds to a schedule whose op i has activity i alone, with its calibrated demands, the activities of its flows, and
// sets durations. `base`: the first resource of the network.
void add_flows(NetworkLoad& load, int base, PricedSchedule& priced);

}  // namespace dovetail
