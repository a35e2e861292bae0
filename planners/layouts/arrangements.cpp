// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/arrangements.hpp"

#include <algorithm>

#include "models/plan/knob_table.hpp"
#include "planners/task/contest.hpp"
#include "planners/task/pipelines.hpp"

namespace dovetail::planners {
namespace {

Plan of_degree(Plan plan, int degree) {
  plan.forward_degree = plan.backward_degree = degree;
  return plan;
}

}  // namespace

std::vector<EnumSet<Recompute>> recomputed_parts() {
  return {{},
          {Recompute::Norms, Recompute::Activation},
          {Recompute::UpProjections, Recompute::Norms, Recompute::Activation},
          {Recompute::Norms, Recompute::Moe},
          {Recompute::Full}};
}

std::vector<Plan> piped(const Plan& plan, const ParallelLayout& layout, const Experiment& e,
                        const PlannerChoice& choices) {
  Plan one = plan;
  one.micro_batches = layout.micro_batches;
  one.virtual_stages = 1;
  one.pipeline_schedule = pipeline_schedule("1f1b");
  std::vector<Plan> ways;
  if (choices.may_pipe(one.pipeline_schedule)) ways.push_back(one);
  const int pp = layout.groups.pp;
  if (pp == 1) return ways;
  const bool training = e.workload.phases == Phases::Training, equal_runs = layout.groups.pipeline_layout.empty();
  const int most = equal_runs ? std::min(most_laps, e.workload.layers / pp) : 1;
  for (const auto& [name, schedule] : pipeline_schedule_names) {
    const NamedProgram& program = entry_of(schedule);
    if ((!program.halves && program.shape == StageShape::One) || (program.halves && !training) ||
        !choices.may_pipe(schedule) || !program.may_have(layout.micro_batches, pp))
      continue;
    for (const int laps : laps_of(program.shape, most)) {
      one.virtual_stages = laps;
      one.pipeline_schedule = schedule;
      ways.push_back(one);
      if (pipelines_of(program.shape) == 1) continue;
      ways.back().grad_sync = GradSync::After;  // the only ones that go with it
      ways.back().parameter_gather = ParameterGather::AfterUpdate;
    }
  }
  return ways;
}

Plan arranged_as(const Plan& arrangement, const Plan& plan) {
  Plan result = without_choices(arrangement);
  copy_knobs(KnobClass::Pipeline, plan, result);
  result.recompute = plan.recompute | (arrangement.recompute & always_recomputed);
  if (plan.zero != 0) result.zero = plan.zero;
  return result;
}

std::vector<Plan> arrangements_of(const System& system, const Experiment& e) {
  const Plan own = plan_on(system, e);
  std::vector<Plan> listed = system.planner.alternatives, found;
  if (listed.empty()) listed.push_back(own);
  for (Plan& plan : listed) {
    plan = without_choices(plan);
    plan.recompute = own.recompute;
    if (std::ranges::count(found, plan) > 0) continue;
    if (system.planner.degrees.size() == 1)
      found.push_back(plan);
    else
      for (const int degree : system.planner.degrees) found.push_back(of_degree(plan, degree));
  }
  return found;
}

}  // namespace dovetail::planners
