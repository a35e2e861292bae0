// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/refusal.hpp"

#include "models/plan/plan_rules.hpp"
#include "models/price/plan_costs.hpp"

namespace dovetail::planners {

std::optional<InputError> refusal(const Plan& plan, const Experiment& experiment) {
  return refusal_of([&] {
    validate(plan, experiment);
    require_costs(plan, experiment);
  });
}

}  // namespace dovetail::planners
