// SPDX-License-Identifier: Apache-2.0
#include "models/plan/system.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/plan/message_sizes.hpp"
#include "models/plan/refuse.hpp"
#include "models/question/capacity.hpp"

namespace dovetail {

void PlannerChoice::require(const Plan& plan, const Experiment& experiment) const {
  const auto in_halves = [](PipelineSchedule schedule) { return entry_of(schedule).halves; };
  const bool known_by_them = !pipeline_schedules.empty() && std::ranges::all_of(pipeline_schedules, in_halves);
  if (known_by_them && !may_pipe(plan.pipeline_schedule))
    refuse("pipeline_schedule", fmt::format("{} is another system's; expected {}", plan.pipeline().name,
                                            entry_of(pipeline_schedules.front()).name));
  for (const SystemRule* rule : rules) rule->require(plan, experiment);
}

Plan plan_on(const System& system, const Experiment& experiment) {
  Plan plan = system.plan;
  const Parallelism& p = experiment.parallelism;
  if (system.gathers_again && p.mp > 1 && !p.repeats_tokens() && !plan.recompute.has(Recompute::Full))
    plan.recompute = plan.recompute | EnumSet{Recompute::MpGather};
  return plan;
}

// As the rules of parallelism and experiments say.
std::string no_repeats_because(const Plan& plan, const Experiment& e) {
  const Parallelism& p = e.parallelism;
  if (p.mp == 1) return "mp is 1";
  if (!e.model.dense() && p.esp != p.mp)
    return fmt::format("shards of experts need the same tokens then, and esp {} is not mp {}", p.esp, p.mp);
  if (e.workload.mtp_layers > 0) return "that is not built with multi-token prediction";
  if (sends_routed(plan, e.workload)) return "that is not built with routed messages";
  return "";
}

bool repeats_tokens(const System& system, const Experiment& experiment) {
  return !system.sequence_parallel.value_or(true) && !experiment.parallelism.sequence_parallel &&
         no_repeats_because(system.plan, experiment).empty();
}

std::optional<Experiment> as_run_by(const System& system, const Experiment& experiment) {
  if (!repeats_tokens(system, experiment)) return {};
  Experiment e = experiment;
  e.parallelism.sequence_parallel = system.sequence_parallel;
  resolve_capacity(e);
  return e;
}

}  // namespace dovetail
