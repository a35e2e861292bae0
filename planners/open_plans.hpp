// The plans that a task leaves open: what planners that leave out nothing go through.
#pragma once
#include <vector>

#include "planners/planner.hpp"

namespace dovetail::planners {

// One degree for both passes: where the task says so, and where chunks are of attention too.
bool ties_degrees(const PlanningTask& task);

// The base plan with every pair of its allowed degrees, uniform over layers, small ones first. Gradients are
// synchronised as the base plan says; partitioned ones, for each backward degree, in the slices of partition_gradients
// and in those of with_dense and after. Throws as allowed_degrees.
std::vector<Plan> open_plans(const PlanningTask& task);

// The same for another base plan; none where it or all of its degrees cannot be built.
std::vector<Plan> open_plans(PlanningTask task, const Plan& base);

}  // namespace dovetail::planners
