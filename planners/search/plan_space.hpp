// SPDX-License-Identifier: Apache-2.0
// A stated set of plans: alternatives for groups of knobs, and candidate degrees. Searched by `dovetail`, enumerated by
// `exhaustive`, so that the one is the other's oracle.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/plan/knob_table.hpp"
#include "planners/closed_form/layer_times.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::planners {

using Setting = std::function<void(Plan&)>;
using Axis = std::vector<Setting>;  // alternatives for knobs that belong together; never empty

struct PlanSpace {
  std::string words;               // what it holds, for proofs
  std::vector<Axis> volumes;       // decide which ops there are and how long they take
  std::vector<Axis> arrangements;  // decide what runs side by side
  Axis keeping, restoring;         // of rows for the backward pass; restoring only adds operations and waits
  std::vector<GradSync> grad_syncs;
  std::vector<int> forward_degrees, backward_degrees;  // ascending
  bool tied = true;                                    // of both passes
  bool by_layer = false;  // partitioned gradients may come with a backward degree of each layer
  double points() const;  // all combinations, contradictory ones included
};

// SearchSpace::Degrees: the candidate degrees alone. SearchSpace::Plans: the alternatives of every knob that the table
// (models/plan/knob_table.hpp) does not keep; with pipeline stages their schedules and micro-batches too. Knobs that
// the task holds have their one value.
PlanSpace plan_space(const PlanningTask& task, std::span<const Knob> table = knobs());

// The base with every combination of settings.
std::vector<Plan> combinations(const Plan& base, std::span<const Axis> axes);

// The plan with its gradients reduced in each way of the space: as each grad_sync does it, partitioned ones as
// partition_gradients slices them for the plan's backward degree and for those of each layer, and as with_dense and
// after would. A way that is the same as another is left out where that is known before.
std::vector<Plan> gradient_plans(const Plan& plan, const PlanSpace& space, const Experiment& experiment,
                                 const LayerTimes& times);

// The plan with partitioned gradients, sliced for its backward degree in each way that gradient_plans() knows; none
// where it reduces no gradients or a cost is missing.
std::vector<Plan> sliced_plans(const Plan& plan, const Experiment& experiment);

// Every plan of the space that can be built, small degrees first; of SearchSpace::Degrees with partitioned gradients
// sliced in three ways each.
void for_each_plan(const PlanningTask& task, const PlanSpace& space, const std::function<void(const Plan&)>& use);

// The base with every pair of the task's degrees; none where it or all of its degrees cannot be built.
std::vector<Plan> degree_plans(PlanningTask task, const Plan& base);

}  // namespace dovetail::planners
