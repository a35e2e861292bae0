#include "models/plan/system.hpp"

#include "models/plan/message_sizes.hpp"
#include "models/question/capacity.hpp"

namespace dovetail {
namespace {

// Whether the rules of parallelism and experiments let ranks repeat tokens.
bool may_repeat_tokens(const Plan& plan, const Experiment& e) {
  const Parallelism& p = e.parallelism;
  return p.mp > 1 && (e.model.dense() || p.esp == p.mp) && e.workload.mtp_layers == 0 &&
         !sends_routed(plan, e.workload);
}

}  // namespace

Plan plan_on(const System& system, const Experiment& experiment) {
  Plan plan = system.plan;
  const Parallelism& p = experiment.parallelism;
  if (system.gathers_again && p.mp > 1 && !p.repeats_tokens() && !plan.recompute.has(Recompute::Full))
    plan.recompute = plan.recompute | EnumSet{Recompute::MpGather};
  return plan;
}

std::optional<Experiment> as_run_by(const System& system, const Experiment& experiment) {
  if (!system.sequence_parallel || experiment.parallelism.sequence_parallel) return {};
  if (*system.sequence_parallel || !may_repeat_tokens(system.plan, experiment)) return {};
  Experiment e = experiment;
  e.parallelism.sequence_parallel = system.sequence_parallel;
  resolve_capacity(e);
  return e;
}

}  // namespace dovetail
