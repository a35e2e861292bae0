// SPDX-License-Identifier: Apache-2.0
// The schedule of a plan, whole: its ops in the order that the plan asks for, and with their prices.
#pragma once
#include <memory>

#include "models/plan/plan.hpp"
#include "models/price/priced_schedule.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/step_builder.hpp"

namespace dovetail {

class RoutedRows;

// A plan's step, built once and priced with one calibration or several. Throws InputError as build_schedule() does.
class BuiltPlan {
 public:
  BuiltPlan(const Experiment& experiment, const Plan& plan, Backward backward = Backward::AsPlanned);

  const Experiment& experiment() const { return experiment_; }
  // With the costs of the experiment, or with others.
  PricedSchedule priced() const { return priced(experiment_); }
  PricedSchedule priced(const Shared<Calibration>& costs) const;

 private:
  PricedSchedule priced(const Experiment& experiment) const;

  Experiment experiment_;
  Plan plan_;
  std::shared_ptr<const Schedule> step_;    // in the order in which it was built
  std::shared_ptr<const RoutedRows> rows_;  // null where messages are not of routed sizes
};

// Builds the step (schedule/step_builder.hpp) and, for order ready_first, reorders it by its prices. Throws InputError
// where the plan or the experiment is refused, or where the calibration lacks what the plan costs (plan_costs.hpp).
Schedule build_schedule(const Experiment& experiment, const Plan& plan);

// The same, priced.
PricedSchedule price_plan(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail
