// SPDX-License-Identifier: Apache-2.0
// Memory in a search: the plans that trade time for it, and when there is no point in looking.
#pragma once
#include <span>
#include <vector>

#include "planners/search/plan_space.hpp"

namespace dovetail::planners {

// The candidate degree that is nearest to the wanted one.
int nearest_degree(const std::vector<int>& degrees, int wanted);

// The plan with every way of the space to restore rows. `tight`: memory is short, so that the ways that take the least
// come in as many chunks as there may be. `least`: only these.
std::vector<Plan> plans_of_less_memory(const Plan& from, const PlanSpace& space, bool tight, bool least = false);

// Whether not even the weights fit, however they are sharded among these plans.
bool weights_exceed(std::span<const Plan> plans, const Experiment& experiment, Bytes limit);

}  // namespace dovetail::planners
