// SPDX-License-Identifier: Apache-2.0
// The plans that a user of a framework can choose among, as its system lists them (PlannerChoice::alternatives).
#pragma once
#include <vector>

#include "planners/task/planner.hpp"

namespace dovetail::planners {

// The ones that can be built, each once, with the pipeline and the recomputed parts of the task's base beside their
// own, and as the user has fixed them. In the order of the list; the base alone where nothing is listed.
std::vector<Plan> alternatives(const PlanningTask& task);

}  // namespace dovetail::planners
