// SPDX-License-Identifier: Apache-2.0
// The part of the plan and of the question that all ops of a schedule share, and that those who price or run it ask
// for.
#pragma once
#include "models/plan/plan.hpp"

namespace dovetail {

struct ScheduleSettings {
  int micro_batches = 1;
  int virtual_stages = 1;  // of each pipeline stage
  StageShape stage_shape = StageShape::Laps;
  Graphs graphs = Graphs::None;  // see launches.hpp
  ScoresAt scores_at = ScoresAt::Decode;
  bool paired = false;                                 // passes of two micro-batches alternate (Scope::Batch)
  bool routed = false;                                 // messages and experts' rows are as many as are chosen
  ExpertKernel expert_kernel = ExpertKernel::Batched;  // of padded messages always this
  int row_tile = 0;                                    // see Plan
  int node_ranks = 0;                                  // see deduplicating_ranks()
  int comm_sms = 0;                                    // see Plan
  AllToAll all_to_all = AllToAll::Linear;
  int hidden = 0;  // M, elements of a token
};

ScheduleSettings schedule_settings(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
