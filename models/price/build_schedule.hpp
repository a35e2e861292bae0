// SPDX-License-Identifier: Apache-2.0
// The schedule of a plan, whole: its ops in the order that the plan asks for, and with their prices.
#pragma once
#include "models/plan/plan.hpp"
#include "models/price/priced_schedule.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// Builds the step (schedule/step_builder.hpp) and, for order ready_first, reorders it by its prices. Throws InputError
// where the plan or the experiment is refused, or where the calibration lacks what the plan costs (plan_costs.hpp).
Schedule build_schedule(const Experiment& experiment, const Plan& plan);

// The same, priced.
PricedSchedule price_plan(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail
