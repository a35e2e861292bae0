// SPDX-License-Identifier: Apache-2.0
// The alternatives of a plan on one layout: those of a space of plans, and of the knobs that it leaves as they are.
#pragma once
#include <vector>

#include "planners/search/plan_space.hpp"

namespace dovetail::planners {

// Every knob but those of the pipeline, number formats, padding, graphs and comm_sms. The last axes are those of
// gradients, weights and the order of chunks, which only whole steps tell apart.
std::vector<Axis> axes_of(const PlanSpace& open);
inline constexpr std::size_t axes_in_steps = 3;

// The ways through the pipeline, each with each set of recomputed parts: what holds more at a time may fit by these.
Axis pipeline_axis(const std::vector<Plan>& ways);

// Two micro-batches that overlap, in each order: the forward pass of one beside the backward pass of the other.
void set_pairs(Plan& plan, PairOrder order);
Axis pairs_axis();

// The knobs that say what is sent when, on which stream and in how many chunks.
std::vector<Axis> chunk_axes_of(const PlanSpace& open);

}  // namespace dovetail::planners
