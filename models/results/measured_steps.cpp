// SPDX-License-Identifier: Apache-2.0
#include "models/results/measured_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/results/rank_correlation.hpp"

namespace dovetail {
namespace {

constexpr std::size_t most_costs = 5;

using Tables = std::span<const StepsTable>;

void count_pairs(const StepsTable& table, StepsSummary& summary) {
  const std::vector<MeasuredStep>& steps = table.steps;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t j = i + 1; j < steps.size(); ++j) {
      if (steps[i].job != steps[j].job || steps[i].measured == steps[j].measured) continue;
      ++summary.pairs;
      const bool slower = steps[i].measured > steps[j].measured;
      if (slower ? steps[i].predicted > steps[j].predicted : steps[i].predicted < steps[j].predicted)
        ++summary.in_order;
    }
}

std::optional<double> order_of(const std::vector<double>& predicted, const std::vector<double>& measured) {
  if (predicted.empty()) return std::nullopt;
  const double r = rank_correlation(predicted, measured);
  return std::isfinite(r) ? std::optional(r) : std::nullopt;
}

StepsSummary steps_summary(std::string source, Tables tables) {
  StepsSummary summary;
  std::vector<const MeasuredTime*> times;
  std::vector<double> peaks, predicted, measured;
  for (const StepsTable& table : tables) {
    summary.not_stated += static_cast<int>(table.not_stated.size());
    count_pairs(table, summary);
    for (const MeasuredStep& step : table.steps) {
      times.push_back(&step);
      predicted.push_back(step.predicted.value());
      measured.push_back(step.measured.value());
      if (const auto off = peak_error(step)) peaks.push_back(std::abs(*off));
    }
  }
  static_cast<TimesSummary&>(summary) = summarise_times(times);
  summary.source = std::move(source);
  summary.rank_correlation = order_of(predicted, measured);
  summary.peaks = static_cast<int>(peaks.size());
  summary.peak_error = mean_or_none(peaks);
  return summary;
}

void add_cost(const CostInfluence& cost, std::vector<std::pair<InfluentialCost, double>>& costs) {
  auto found = std::ranges::find_if(costs, [&](const auto& known) {
    return known.first.cost == cost.cost && known.first.origin == cost.origin && known.first.within == cost.within;
  });
  if (found == costs.end())
    found = costs.insert(found, {InfluentialCost{cost.cost, cost.origin, cost.within, 0, 0, 0}, 0});
  ++found->first.steps;
  found->first.fast += cost.fast;
  found->first.slow += cost.slow;
  found->second += cost.width();
}

}  // namespace

std::optional<double> peak_error(const MeasuredStep& step) {
  if (!step.measured_peak) return std::nullopt;
  return step.predicted_peak / *step.measured_peak - 1;
}

std::vector<StepsSummary> summarise(Tables tables) {
  std::vector<StepsSummary> summaries;
  for (const StepsTable& table : tables) summaries.push_back(steps_summary(table.id, {&table, 1}));
  if (tables.size() > 1) summaries.push_back(steps_summary("all", tables));
  return summaries;
}

std::vector<InfluentialCost> influential_costs(const StepsTable& table) {
  std::vector<std::pair<InfluentialCost, double>> costs;  // with the sum of their widths
  for (const MeasuredStep& step : table.steps)
    if (step.range)
      for (const CostInfluence& cost : step.range->costs) add_cost(cost, costs);
  std::ranges::stable_sort(costs, std::ranges::greater(), &std::pair<InfluentialCost, double>::second);
  std::vector<InfluentialCost> most;
  for (auto& [cost, width] : costs) {
    if (most.size() == most_costs) break;
    cost.fast /= cost.steps;
    cost.slow /= cost.steps;
    most.push_back(std::move(cost));
  }
  return most;
}

}  // namespace dovetail
