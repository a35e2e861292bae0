// SPDX-License-Identifier: Apache-2.0
#include "models/price/build_schedule.hpp"

#include <utility>

#include "models/network/routed_rows.hpp"
#include "models/price/fill_gaps.hpp"
#include "models/price/plan_costs.hpp"
#include "models/price/price.hpp"
#include "models/price/ready_first.hpp"
#include "models/schedule/one_connection.hpp"

namespace dovetail {
namespace {

// When the order of ops is settled.
void take_from_queues(const Plan& plan, Schedule& schedule) {
  if (plan.one_connection) take_from_one_queue(schedule);
}

Schedule ordered_by_costs(const Plan& plan, const PricedSchedule& priced) {
  Schedule schedule = plan.order == Order::ReadyFirst ? ready_first(priced) : fill_gaps(priced);
  take_from_queues(plan, schedule);
  return schedule;
}

}  // namespace

BuiltPlan::BuiltPlan(const Experiment& experiment, const Plan& plan, Backward backward)
    : experiment_(experiment), plan_(plan) {
  auto step = std::make_shared<Schedule>(build_step(experiment, plan, Units::Copied, backward));
  if (!plan.is_ordered_by_costs()) take_from_queues(plan, *step);
  if (step->routed) {
    rows_ = std::make_shared<const RoutedRows>(experiment, *step);
    set_held_rows(*rows_, *step);
  }
  step_ = std::move(step);
}

PricedSchedule BuiltPlan::priced(const Shared<Calibration>& costs) const {
  Experiment other = experiment_;
  other.calibration = costs;
  return priced(other);
}

PricedSchedule BuiltPlan::priced(const Experiment& experiment) const {
  require_costs(plan_, experiment);
  PricedSchedule priced = price(step_, experiment, rows_.get());
  if (!plan_.is_ordered_by_costs()) return priced;
  return price(std::make_shared<const Schedule>(ordered_by_costs(plan_, priced)), experiment);
}

Schedule build_schedule(const Experiment& experiment, const Plan& plan) {
  Schedule step = build_step(experiment, plan);
  if (step.routed) set_held_rows(RoutedRows(experiment, step), step);
  require_costs(plan, experiment);
  if (plan.is_ordered_by_costs())
    return ordered_by_costs(plan, price(std::make_shared<const Schedule>(std::move(step)), experiment));
  take_from_queues(plan, step);
  return step;
}

PricedSchedule price_plan(const Experiment& experiment, const Plan& plan) {
  return BuiltPlan(experiment, plan).priced();
}

}  // namespace dovetail
