// SPDX-License-Identifier: Apache-2.0
#include "planners/refusal.hpp"

#include "models/plan/plan_rules.hpp"
#include "models/price/plan_costs.hpp"

namespace dovetail::planners {

std::optional<InputError> refusal(const Plan& plan, const Experiment& experiment) {
  try {
    validate(plan, experiment);
    require_costs(plan, experiment);
    return std::nullopt;
  } catch (const InputError& error) {
    return error;
  }
}

}  // namespace dovetail::planners
