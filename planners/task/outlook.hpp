// SPDX-License-Identifier: Apache-2.0
// The best that a planner may reach, by estimate, before it is asked.
#pragma once
#include <optional>
#include <vector>

#include "planners/task/pipelines.hpp"

namespace dovetail::planners {

// A way through the pipeline with the best step of it that a planner may reach; none: no plan of it is estimated.
struct Outlook {
  Pipeline way;
  std::optional<StepEstimate> step;
};

// The outlook of each way, few micro-batches first. If steps fit and all of one size of micro-batches are far too
// large, larger ones are left out unseen. Empty: the task has no estimates.
std::vector<Outlook> outlooks(const Planner& planner, const PlanningTask& task, const std::vector<Pipeline>& ways);

// The fastest of the planner's bases that may fit, as they are or with one of its degrees up to 4, else the one that
// holds least, in one of these ways through the pipeline. None: the task has no estimates, or no way has one.
std::optional<StepEstimate> outlook(const Planner& planner, const PlanningTask& task,
                                    const std::vector<Pipeline>& ways);

}  // namespace dovetail::planners
