// SPDX-License-Identifier: Apache-2.0
// The best that a planner may reach, by estimate, before it is asked.
#pragma once
#include <optional>
#include <vector>

#include "planners/task/pipelines.hpp"

namespace dovetail::planners {

// The fastest of the planner's bases that may fit, as they are or with one of its degrees up to 4, else the one that
// holds least, in one of these ways through the pipeline. None: the task has no estimates, or one of the ways has
// none.
std::optional<StepEstimate> outlook(const Planner& planner, const PlanningTask& task,
                                    const std::vector<Pipeline>& ways);

}  // namespace dovetail::planners
