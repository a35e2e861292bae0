// SPDX-License-Identifier: Apache-2.0
#include "planners/task/pipelines.hpp"

#include <algorithm>

#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

constexpr int most_micro_batches = 256;

bool fixed_otherwise(const PlanningTask& task, Pipeline pipeline) {
  if (!task.hold) return false;
  Plan plan = task.base;
  set_pipeline(plan, pipeline);
  Plan held = plan;
  task.hold(held);
  return held.micro_batches != plan.micro_batches || held.pipeline_schedule != plan.pipeline_schedule ||
         held.virtual_stages != plan.virtual_stages;
}

// The ways of more than one micro-batch, whatever can be built.
std::vector<Pipeline> ways_of_parts(const PlanningTask& task, int parts) {
  const int laps = task.base.virtual_stages, pp = task.experiment.parallelism.pp;
  const NamedProgram& given = task.base.pipeline();
  if (laps > 1)
    return {
        {given.shape == StageShape::One ? pipeline_schedule("interleaved") : task.base.pipeline_schedule, parts, laps}};
  std::vector<Pipeline> ways;
  for (const PipelineSchedule schedule : {pipeline_schedule("1f1b"), pipeline_schedule("gpipe")})
    if (task.choices.may_pipe(schedule)) ways.push_back({schedule, parts});
  if (pp == 1) return ways;
  const int most = std::min(most_laps, task.experiment.workload.layers / pp);
  for (const auto& [name, schedule] : pipeline_schedule_names) {
    const NamedProgram& program = entry_of(schedule);
    const bool one = program.shape == StageShape::One;
    const bool asked = one ? program.halves : !task.choices.pipeline_schedules.empty();
    if (!asked || !task.choices.may_pipe(schedule)) continue;
    if (program.halves && task.experiment.workload.phases != Phases::Training) continue;
    for (const int more : laps_of(program.shape, most)) ways.push_back({schedule, parts, more});
  }
  return ways;
}

}  // namespace

std::vector<int> laps_of(StageShape shape, int most) {
  if (shape == StageShape::One) return {1};
  if (shape == StageShape::TwoWays) return {2};  // of different pipelines, so that each has all layers
  if (shape == StageShape::V) most = std::min(most, 2);
  std::vector<int> laps;
  for (int several = 2; several <= most; ++several) laps.push_back(several);
  return laps;
}

void set_pipeline(Plan& plan, Pipeline pipeline) {
  plan.pipeline_schedule = pipeline.schedule;
  plan.micro_batches = pipeline.micro_batches;
  plan.virtual_stages = pipeline.virtual_stages;
}

Pipeline pipeline_of(const Plan& plan) {
  return {plan.pipeline_schedule, plan.micro_batches, plan.virtual_stages};
}

std::vector<Pipeline> pipelines(const PlanningTask& task) {
  std::vector<Pipeline> ways;
  const Pipeline as_given = pipeline_of(task.base);
  Plan plain;
  if (task.base.scope == Scope::Batch) plain.scope = Scope::Batch;  // which not every pipeline has
  // Some gates refuse the plain plan, and some bases refuse all degrees but those still to be chosen.
  const auto buildable = [&](Plan plan, Pipeline pipeline) {
    set_pipeline(plan, pipeline);
    return !refusal(plan, task.experiment) && !refusal_of([&] { task.choices.require(plan, task.experiment); });
  };
  const auto add = [&](Pipeline pipeline) {
    if ((buildable(plain, pipeline) || buildable(without_choices(task.base), pipeline)) &&
        !fixed_otherwise(task, pipeline))
      ways.push_back(pipeline);
  };
  Pipeline another = as_given;
  ++another.micro_batches;
  const bool held = fixed_otherwise(task, another);
  const bool systems_own = as_given.micro_batches > 1 && !held;
  const int most = systems_own ? 0 : std::min(task.experiment.workload.batch, most_micro_batches);
  for (int parts = 1; parts <= most; ++parts) {
    if (task.experiment.workload.batch % parts != 0) continue;
    if (parts == 1)
      add({as_given.schedule, 1, as_given.virtual_stages});
    else
      for (const Pipeline way : ways_of_parts(task, parts)) add(way);
  }
  if (ways.empty()) ways.push_back(as_given);
  return ways;
}

}  // namespace dovetail::planners
