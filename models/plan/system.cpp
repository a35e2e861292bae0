#include "models/plan/system.hpp"

#include "models/question/capacity.hpp"

namespace dovetail {
namespace {

// Whether the rules of parallelism and experiments let ranks repeat tokens.
bool may_repeat_tokens(const Experiment& e) {
  const Parallelism& p = e.parallelism;
  return p.mp > 1 && (e.model.dense() || p.esp == p.mp) && e.workload.mtp_layers == 0 &&
         e.workload.message_sizes == MessageSizes::Padded;
}

}  // namespace

std::optional<Experiment> as_run_by(const System& system, const Experiment& experiment) {
  if (!system.sequence_parallel || experiment.parallelism.sequence_parallel) return {};
  if (*system.sequence_parallel || !may_repeat_tokens(experiment)) return {};
  Experiment e = experiment;
  e.parallelism.sequence_parallel = system.sequence_parallel;
  resolve_capacity(e);
  return e;
}

}  // namespace dovetail
