#include "planners/pipelines.hpp"

#include <algorithm>

#include "planners/contest.hpp"

namespace dovetail::planners {
namespace {

constexpr int most_micro_batches = 256;

bool fixed_otherwise(const PlanningTask& task, Pipeline pipeline) {
  if (!task.hold) return false;
  Plan plan = task.base;
  set_pipeline(plan, pipeline);
  Plan held = plan;
  task.hold(held);
  return held.micro_batches != plan.micro_batches || held.pipeline_schedule != plan.pipeline_schedule;
}

}  // namespace

void set_pipeline(Plan& plan, Pipeline pipeline) {
  plan.pipeline_schedule = pipeline.schedule;
  plan.micro_batches = pipeline.micro_batches;
}

std::vector<Pipeline> pipelines(const PlanningTask& task) {
  std::vector<Pipeline> ways;
  const Pipeline as_given{task.base.pipeline_schedule, task.base.micro_batches};
  // Some gates refuse the plain plan, and some bases refuse all degrees but those still to be chosen.
  const auto buildable = [&](Plan plan, Pipeline pipeline) {
    set_pipeline(plan, pipeline);
    plan.virtual_stages = task.base.virtual_stages;
    return !refusal(plan, task.experiment);
  };
  const auto add = [&](Pipeline pipeline) {
    if ((buildable({}, pipeline) || buildable(without_choices(task.base), pipeline)) &&
        !fixed_otherwise(task, pipeline))
      ways.push_back(pipeline);
  };
  const bool held = fixed_otherwise(task, {as_given.schedule, as_given.micro_batches + 1});
  const bool systems_own = as_given.micro_batches > 1 && !held;
  const int most = systems_own ? 0 : std::min(task.experiment.workload.batch, most_micro_batches);
  for (int parts = 1; parts <= most; ++parts) {
    if (task.experiment.workload.batch % parts != 0) continue;
    if (parts == 1) {
      add({as_given.schedule, 1});
      continue;
    }
    if (task.base.virtual_stages > 1) {
      add({PipelineSchedule::Interleaved, parts});
      continue;
    }
    add({PipelineSchedule::OneForwardOneBackward, parts});
    add({PipelineSchedule::Gpipe, parts});
  }
  if (ways.empty()) ways.push_back(as_given);
  return ways;
}

}  // namespace dovetail::planners
