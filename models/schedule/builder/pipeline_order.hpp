// SPDX-License-Identifier: Apache-2.0
// The order of a pipelined step: which micro-batch passes which stage when. Knows nothing of what a stage does.
#pragma once
#include <vector>

#include "models/plan/plan.hpp"
#include "models/schedule/op.hpp"

namespace dovetail::builder {

// One micro-batch through one stage, forward or backward; with virtual stages, through one of them.
struct StageUnit {
  int stage = 0;
  Phase phase = Phase::Forward;
  int micro_batch = 0;
  int lap = 0;  // see StageLayout
  friend bool operator==(const StageUnit&, const StageUnit&) = default;
};

// The work of one stage, in its order.
// Gpipe (Huang et al. 2019): all forwards, then the backwards in reverse.
// OneForwardOneBackward (PipeDream-Flush, Narayanan et al. 2021): stage s runs stages - 1 - s forwards ahead, then one
// forward and one backward in turn, so that it holds at most stages - s micro-batches.
// Interleaved (Narayanan et al. 2021, as in Megatron-LM): each group of `stages` micro-batches passes all laps, before
// the next one does: forward from the first lap on, backward from the last one on. Stage s runs
// 2 (stages - 1 - s) + (laps - 1) stages units ahead.
std::vector<StageUnit> stage_order(PipelineSchedule schedule, int stage, int stages, int micro_batches, int laps = 1);

// All stages' units, each after the unit that it gets its data from. Without `training` forwards only.
std::vector<StageUnit> pipeline_order(PipelineSchedule schedule, int stages, int micro_batches, bool training,
                                      int laps = 1);

}  // namespace dovetail::builder
