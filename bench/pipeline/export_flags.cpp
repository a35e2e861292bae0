// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/export_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/question/capacity.hpp"
#include "planners/layouts/layout.hpp"
#include "planners/steps/step_prediction.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

using reports::Framework;
using reports::FrameworkFlags;

// The shipped system that does as the framework does.
const char* system_of(Framework framework) {
  switch (framework) {
    case Framework::Megatron:
      return "megatron_lm";
    case Framework::DeepSpeed:
      return "deepspeed_moe";
    case Framework::Tutel:
      return "tutel_adaptive";
    case Framework::Json:
      break;
  }
  return "";
}

// A plan with its flags. `experiment` is laid out.
struct Exported {
  Experiment experiment;
  Plan plan;
  Seconds step;
  FrameworkFlags flags;
};

// The question as the result runs it.
Experiment laid_out(const Report& report, const SystemResult& result) {
  if (report.tuning)
    return planners::with_layout(report.experiment, {result.groups, result.micro_batch, result.plan.micro_batches});
  Experiment experiment = report.experiment;
  experiment.parallelism.sequence_parallel = result.schedule->groups.sequence_parallel;
  return experiment;
}

Exported exported(Framework framework, const SystemResult& result, const Report& report) {
  const Experiment experiment = laid_out(report, result);
  return {experiment, result.plan, result.metrics.makespan, reports::flags_for(framework, experiment, result.plan)};
}

// The step that the flags make of the plan, in words.
struct TakenStep {
  std::optional<Seconds> time;  // none: it cannot be predicted
  std::string sentence;
};

TakenStep taken_step(const Exported& e) {
  const std::string plans = reports::duration(e.step);
  if (e.flags.whole()) return {e.step, fmt::format("{} a step", plans)};
  if (!e.flags.known)
    return {{},
            fmt::format("{} a step is the plan's; {} does not run it with these arguments", plans, e.flags.framework)};
  const auto& [groups, batch, plan, messages] = e.flags.taken;
  try {
    Experiment routed = e.experiment;
    routed.workload.message_sizes = messages;
    resolve_capacity(routed);
    const Experiment taken = planners::with_layout(routed, {groups, batch / plan.micro_batches, plan.micro_batches});
    validate(plan, taken);
    const planners::StepPrediction step(taken, plan);
    const Bytes memory = e.experiment.cluster.device.memory;
    return {step.time(),
            fmt::format("{} a step with these arguments{}, not the {} of the plan", reports::duration(step.time()),
                        step.peak() <= memory ? ""
                                              : fmt::format(", which take {} of the {} of a GPU",
                                                            reports::bytes(step.peak()), reports::bytes(memory)),
                        plans)};
  } catch (const InputError& error) {
    return {{},
            fmt::format("{} a step is the plan's; with these arguments it is not known: {}", plans, error.message())};
  }
}

void write(std::ostream& out, const Exported& e, const TakenStep& step) {
  reports::write_flags(out, e.flags);
  out << "# " << step.sentence << '\n';
}

// The fastest of the plans that a search over layouts found which the framework takes as they are; where it takes none,
// the best of its own system.
std::optional<Exported> other_plan(Framework framework, const Report& report) {
  std::optional<Exported> fastest, own;
  if (!report.tuning) return own;
  const auto look_at = [&](const SystemResult& plan) {
    Exported e = exported(framework, plan, report);
    if (plan.system == system_of(framework)) own = e;
    if (e.flags.whole() && (!fastest || e.step < fastest->step)) fastest = std::move(e);
  };
  for (const SystemResult& plan : report.results) look_at(plan);
  for (const TunedSystem& system : report.tuning->systems) look_at(system.own);
  return fastest ? fastest : own;
}

}  // namespace

bool only_flags(const Options& options) {
  return options.quiet && options.framework.has_value();
}

void write_export(std::ostream& out, const Options& options, const Report& report) {
  if (!options.framework) return;
  if (!only_flags(options)) out << '\n';
  const Exported best = exported(*options.framework, report.results.front(), report);
  if (*options.framework == Framework::Json) return reports::write_flags(out, best.flags);
  const TakenStep step = taken_step(best);
  write(out, best, step);
  if (best.flags.whole()) return;
  const std::optional<Exported> other = other_plan(*options.framework, report);
  if (!other) return;
  const TakenStep others = taken_step(*other);
  if (!others.time || (step.time && *step.time <= *others.time)) return;
  out << fmt::format("\n# Faster with {}, of the plans that were found:\n", best.flags.framework);
  write(out, *other, others);
}

}  // namespace dovetail::bench
