// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/schedule_settings.hpp"

#include "models/plan/collectives/all_to_all.hpp"
#include "models/plan/message_sizes.hpp"
#include "models/plan/program.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

ScheduleSettings schedule_settings(const Plan& plan, const Experiment& experiment) {
  ScheduleSettings s;
  s.micro_batches = plan.micro_batches;
  s.virtual_stages = plan.virtual_stages;
  s.stage_shape = plan.pipeline().shape;
  s.graphs = plan.graphs;
  s.scores_at = plan.scores_at;
  s.paired = plan.scope == Scope::Batch;
  s.routed = sends_routed(plan, experiment.workload);
  if (s.routed) s.expert_kernel = plan.expert_kernel;
  s.row_tile = plan.row_tile;
  s.node_ranks = deduplicating_ranks(plan, experiment);
  s.comm_sms = plan.comm_sms;
  s.all_to_all = plan.all_to_all;
  s.hidden = experiment.model.hidden;
  return s;
}

}  // namespace dovetail
