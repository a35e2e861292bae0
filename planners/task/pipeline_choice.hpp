// SPDX-License-Identifier: Apache-2.0
// How a step runs its batch through the pipeline stages: a choice that every planner has, whatever else it chooses.
#pragma once
#include <vector>

#include "planners/task/pipelines.hpp"

namespace dovetail::planners {

// The planner's plans for each of these ways, and of those the fastest that fits the device's memory; else the one that
// needs least. With more micro-batches it stops when they only made the step slower twice. Without pipeline stages it
// stops at the first number that is slower. It does not plan for a number with which the best plan so far is much
// slower. `ask`: how plans are compared. If it is empty, they are compared by the task's trial, or else by the
// analytic model; with neither a planner sees two micro-batches for each stage at most, since all are alike.
PlanChoice choose_with_pipeline(const Planner& planner, const PlanningTask& task, const std::vector<Pipeline>& ways,
                                const Evaluator& ask = {});

}  // namespace dovetail::planners
