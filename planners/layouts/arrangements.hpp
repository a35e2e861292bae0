// SPDX-License-Identifier: Apache-2.0
// The ways in which a search lays plans out: what they recompute, how they go through stages, and those of systems.
#pragma once
#include <vector>

#include "models/plan/system.hpp"
#include "planners/layouts/layout.hpp"

namespace dovetail::planners {

// Parts that a system recomputes whatever the memory, in place of keeping them.
inline constexpr EnumSet always_recomputed{Recompute::MpGather};

// Less and less memory and more and more time.
std::vector<EnumSet<Recompute>> recomputed_parts();

// The ways in which a layout's micro-batches may go through its stages.
std::vector<Plan> piped(const Plan& plan, const ParallelLayout& layout, const Experiment& experiment,
                        const PlannerChoice& choices);

// An arrangement of layers and gradients, on the pipeline and memory of another plan.
Plan arranged_as(const Plan& arrangement, const Plan& plan);

// The system's plans with each of its degrees, whatever they recompute to fit the memory.
std::vector<Plan> arrangements_of(const System& system, const Experiment& experiment);

}  // namespace dovetail::planners
