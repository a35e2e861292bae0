// SPDX-License-Identifier: Apache-2.0
// A pipeline stage by itself, of a few layers: what costs and floors of stages are read off.
#pragma once
#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

// One stage by itself. Its groups lie as in the whole cluster where its ranks are whole nodes or part of one, and
// nearly so elsewhere. A described network counts where whole steps are predicted.
Experiment stage_alone(Experiment experiment);

// The smallest stage whose layers are the same: replicas of its groups change nothing there.
Experiment smallest_stage(Experiment experiment);

// So many layers of each kind.
struct Layers {
  int dense = 0, moe = 0, predictions = 0;
};
Experiment of_layers(Experiment experiment, Layers layers);

// The plan on one stage alone, its gradients in no slices, its backward passes whole and beside nothing else.
Plan of_one_stage(Plan plan);

// All that distinguishes the stages of one question's layouts.
std::vector<std::int64_t> layout_key(const Experiment& experiment);

}  // namespace dovetail::planners
