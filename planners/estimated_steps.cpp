// SPDX-License-Identifier: Apache-2.0
#include "planners/estimated_steps.hpp"

#include "models/base/errors.hpp"
#include "planners/refusal.hpp"

namespace dovetail::planners {

bool EstimatedSteps::applies_to(const Experiment& e) {
  constexpr int few = 512;  // layers x samples, by choice
  return e.workload.phases == Phases::Training && !e.cluster.network && e.workload.layers * e.workload.batch >= few;
}

std::optional<StepEstimate> EstimatedSteps::of(const Experiment& e, const Plan& plan) {
  const bool alone = e.parallelism.pp == 1 && plan.micro_batches == 1;
  if (alone || !applies_to(e) || refusal(plan, e)) return std::nullopt;
  try {
    return estimate(e, plan, costs_.of(e, plan), costs_.hop(e, plan), orders_);
  } catch (const InputError&) {  // a cost is missing
    return std::nullopt;
  }
}

}  // namespace dovetail::planners
