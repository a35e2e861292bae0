// SPDX-License-Identifier: Apache-2.0
// A step's time and memory from the costs of its parts: what a search over layouts ranks by.
#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "models/plan/program.hpp"
#include "planners/steps/stage_costs.hpp"

namespace dovetail::planners {

struct StepEstimate {
  Seconds time;
  Bytes peak;        // of the fullest stage
  Bytes persistent;  // of that: weights, gradients and states, which no micro-batch and no recomputing changes
  Bytes held;        // persistent, and the rows of all micro-batches under way; no arrangement does without
};

// `e` is laid out for all the plan's micro-batches; `hop` is what rows take to the next stage.

// In a microsecond. Ranks of a lap wait for the slowest of its stages, and the pipeline is filled and drained once,
// which takes no time where gradients of weights come later. Memory is that of micro-batches of equal laps.
StepEstimate quick_estimate(const Experiment& e, const Plan& plan, const StageCosts& costs, Seconds hop);

// The orders of pipelines that were asked for.
class PipelineOrders {
 public:
  const std::vector<Slot>& of(const Plan& plan, int stages, int micro_batches, bool training, int laps);

 private:
  std::vector<Slot> listed_;  // of the plan asked for last that lists its program
  std::map<std::tuple<PipelineSchedule, Turns, int, int, bool, int>, std::vector<Slot>> known_;
};

// By the pipeline's own order of its units. Each takes what its layers take one after the other, and ends when the host
// has issued it.
StepEstimate estimate(const Experiment& e, const Plan& plan, const StageCosts& costs, Seconds hop,
                      PipelineOrders& orders);

}  // namespace dovetail::planners
