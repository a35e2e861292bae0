// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/estimated_ratios.hpp"

namespace dovetail::planners {

EstimatedRatios::EstimatedRatios(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    steps_.emplace_back(step);
    nominal_.push_back(time(steps_.back(), step.experiment.calibration));
  }
}

bool EstimatedRatios::apply_to(const Experiment& e) {
  return e.workload.phases == Phases::Training && e.workload.extent == Extent::Model && !e.cluster.network &&
         e.events.empty() && !e.model.expert_profile.given() && !e.model.gate_profile.given();
}

Seconds EstimatedRatios::time(const Built& built, const Shared<Calibration>& costs) {
  const auto& [e, plan] = built.step;
  return estimate(e, plan, built.stage.costs(costs), built.stage.hop(costs), orders_).time;
}

std::vector<double> EstimatedRatios::operator()(const Shared<Calibration>& costs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < steps_.size(); ++i) ratios.push_back(time(steps_[i], costs) / nominal_[i]);
  return ratios;
}

}  // namespace dovetail::planners
