// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/estimated_ratios.hpp"

#include <utility>

namespace dovetail::planners {

EstimatedRatios::EstimatedRatios(std::vector<Step> steps) : steps_(std::move(steps)), nominal_(times()) {}

bool EstimatedRatios::apply_to(const Experiment& e) {
  return e.workload.phases == Phases::Training && e.workload.extent == Extent::Model && !e.cluster.network &&
         e.events.empty() && !e.model.expert_profile.given() && !e.model.gate_profile.given();
}

std::vector<Seconds> EstimatedRatios::times() {
  StageCostTable costs;
  std::vector<Seconds> times;
  for (const auto& [e, plan] : steps_)
    times.push_back(estimate(e, plan, costs.of(e, plan), costs.hop(e, plan), orders_).time);
  return times;
}

std::vector<double> EstimatedRatios::operator()(const Shared<Calibration>& costs) {
  for (Step& step : steps_) step.experiment.calibration = costs;
  const std::vector<Seconds> now = times();
  std::vector<double> ratios;
  for (std::size_t i = 0; i < now.size(); ++i) ratios.push_back(now[i] / nominal_[i]);
  return ratios;
}

}  // namespace dovetail::planners
