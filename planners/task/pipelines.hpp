// SPDX-License-Identifier: Apache-2.0
// The ways in which a step may run its batch through the pipeline stages.
#pragma once
#include <vector>

#include "planners/task/planner.hpp"

namespace dovetail::planners {

inline constexpr int most_laps = 16;  // virtual stages of a rank that are tried; by choice

struct Pipeline {
  PipelineSchedule schedule = pipeline_schedule("gpipe");
  int micro_batches = 1;
  int virtual_stages = 1;
};

// The numbers of virtual stages on a rank that programs of this shape may have, up to `most`.
std::vector<int> laps_of(StageShape shape, int most);

void set_pipeline(Plan& plan, Pipeline pipeline);
Pipeline pipeline_of(const Plan& plan);

// Every number of equal micro-batches, up to 256, by 1f1b and by gpipe, or by the schedules that the system has, few
// micro-batches first: those that the experiment allows and the task does not fix otherwise. Trainings on several
// stages may also have passes in halves where whole plans are searched. A base with virtual stages keeps these, in its
// own program or interleaved, and a system that names programs tries them with up to 16 of them. One micro-batch comes
// once, as in the base. If the base has several that the task does not fix, they belong to the system, and there is
// only the base's own way.
std::vector<Pipeline> pipelines(const PlanningTask& task);

}  // namespace dovetail::planners
