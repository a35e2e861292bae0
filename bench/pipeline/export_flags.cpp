#include "bench/pipeline/export_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "planners/layouts/layout.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

using reports::Framework;

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

reports::FrameworkFlags flags_of(Framework framework, const TunedPlan& plan, const Tuning& tuning) {
  return reports::flags_for(
      framework, planners::with_layout(tuning.experiment, {plan.groups, plan.micro_batch, plan.plan.micro_batches}),
      plan.plan);
}

}  // namespace

bool only_flags(const Options& options) {
  return options.quiet && options.framework.has_value();
}

void write_export(std::ostream& out, const Options& options, const Report& report) {
  if (!options.framework) return;
  const SystemResult& best = report.results.front();
  Experiment experiment = report.experiment;
  experiment.parallelism.sequence_parallel = best.schedule->groups.sequence_parallel;
  if (!only_flags(options)) out << '\n';
  reports::write_flags(out, reports::flags_for(*options.framework, experiment, best.plan));
}

void write_export(std::ostream& out, const Options& options, const Tuning& tuning) {
  if (!options.framework) return;
  if (!only_flags(options)) out << '\n';
  const reports::FrameworkFlags flags = flags_of(*options.framework, tuning.best.front(), tuning);
  reports::write_flags(out, flags);
  if (flags.cannot.empty()) return;
  const auto own = std::ranges::find_if(
      tuning.systems, [&](const TunedSystem& s) { return s.own.system == system_of(*options.framework); });
  if (own == tuning.systems.end()) return;
  out << fmt::format("\n# The best plan of {}, which takes {} a step instead of {}:\n", own->own.system,
                     reports::duration(own->own.step), reports::duration(tuning.best.front().step));
  reports::write_flags(out, flags_of(*options.framework, own->own, tuning));
}

}  // namespace dovetail::bench
