// SPDX-License-Identifier: Apache-2.0
#include "reports/flags/frameworks.hpp"

#include <nlohmann/json.hpp>
#include <tuple>

#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "reports/flags/flag_writer.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

auto sizes_of(const Parallelism& p) {
  return std::tuple(p.pp, p.mp, p.dp, p.ep, p.esp, p.edp, p.repeats_tokens());
}

FrameworkFlags own_json(const Experiment& e, const Plan& plan) {
  const Json file{{"workload", {{"batch", e.workload.batch}, {"sequence", e.workload.sequence}}},
                  {"parallelism", dovetail::to_json(e.parallelism)},
                  {"plan", dovetail::to_json(plan)}};
  return {"Dovetail", "an experiment file's parts", {},
          {},         file.dump(2) + "\n",          {e.parallelism, e.workload.batch, plan}};
}

}  // namespace

FrameworkFlags flags_for(Framework framework, const Experiment& experiment, const Plan& plan) {
  switch (framework) {
    case Framework::Megatron:
      return megatron_flags(experiment, plan);
    case Framework::DeepSpeed:
      return deepspeed_flags(experiment, plan);
    case Framework::Tutel:
      return tutel_flags(experiment, plan);
    case Framework::Json:
      break;
  }
  return own_json(experiment, plan);
}

std::optional<Plan> as_run_by(Framework framework, const Experiment& experiment, const Plan& plan) {
  const FrameworkFlags flags = flags_for(framework, experiment, plan);
  if (flags.whole()) return plan;
  const TakenPlan& taken = flags.taken;
  const bool same = sizes_of(taken.groups) == sizes_of(experiment.parallelism) &&
                    taken.batch == experiment.workload.batch && taken.messages == experiment.workload.message_sizes;
  return flags.known && same ? std::optional(taken.plan) : std::nullopt;
}

}  // namespace dovetail::reports
