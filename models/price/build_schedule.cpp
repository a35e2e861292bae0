// SPDX-License-Identifier: Apache-2.0
#include "models/price/build_schedule.hpp"

#include "models/network/routed_rows.hpp"
#include "models/price/plan_costs.hpp"
#include "models/price/price.hpp"
#include "models/price/ready_first.hpp"
#include "models/schedule/step_builder.hpp"

namespace dovetail {

Schedule build_schedule(const Experiment& experiment, const Plan& plan) {
  Schedule step = build_step(experiment, plan);
  set_held_rows(experiment, step);
  require_costs(plan, experiment);
  if (plan.order != Order::ReadyFirst) return step;
  return ready_first(price(std::make_shared<const Schedule>(std::move(step)), experiment));
}

PricedSchedule price_plan(const Experiment& experiment, const Plan& plan) {
  return price(std::make_shared<const Schedule>(build_schedule(experiment, plan)), experiment);
}

}  // namespace dovetail
