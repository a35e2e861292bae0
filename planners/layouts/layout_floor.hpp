// SPDX-License-Identifier: Apache-2.0
// The least time of a step on a layout, from the floors of its layers (stage_floor.hpp): no plan on it that fits takes
// less, whatever its knobs.
#pragma once

#include "planners/layouts/layout.hpp"
#include "planners/layouts/stage_floor.hpp"
#include "planners/steps/least_compute.hpp"
#include "planners/steps/stage_costs.hpp"

namespace dovetail::planners {

struct LayoutFloor {
  Seconds time;
  // The parts of that on the stage that needs most: its layers with nothing computed again, what is computed again, and
  // the wait for the stages before it.
  Seconds layers, again, filling;
};

class LayoutFloors {
 public:
  // See StageFloors. `limit`: of device memory. `costs` knows the stages of the question.
  LayoutFloors(const Experiment& experiment, const Plan& base, const StageFloors::Hold& hold, Bytes limit,
               StageCostTable& costs);

  // `plan`: one on the layout with as little state as any.
  //
  // A stage computes for all micro-batches. It begins when the first lap of the first one has reached it, and its last
  // unit is a backward pass of that lap, which the stages before it wait for. So with n micro-batches on it, it takes
  // n times its layers, and once the layers and the hops before it. Every number of laps is tried, each with the way to
  // keep rows that takes least and may fit: a stage holds its state, and the rows of all units that begin before its
  // first backward pass. If plans may make gradients of weights later, these may fill the waits: then a stage has
  // its layers and the hops before it, and in a V the rows of one unit. If plans may have exchanges run beside another
  // micro-batch, shared experts or gradients of weights, layers take what they compute, or what their exchanges take if
  // that is longer, and what is computed again is not counted.
  LayoutFloor of(const ParallelLayout& layout, const Plan& plan, FloorDetail detail = FloorDetail::Whole);

 private:
  bool may_be(StageShape shape, bool halves, Plan plan) const;
  bool is_listed(Plan plan) const;  // floors do not know what a listed program begins with
  bool may_overlap(const Experiment& experiment, const Plan& plan) const;

  const Experiment& experiment_;
  StageFloors::Hold hold_;
  Bytes limit_;
  StageCostTable& costs_;
  LeastComputeTable computed_;
  StageFloors stages_;
};

}  // namespace dovetail::planners
