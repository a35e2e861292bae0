// SPDX-License-Identifier: Apache-2.0
#include "reports/text/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dovetail::reports {
namespace {

std::optional<double> ratio(Seconds a, Seconds b) {
  const double value = a / b;
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// Forward ops of later micro-batches run beside or after backward ops of earlier ones.
bool phases_interleave(const Plan& plan) {
  return plan.micro_batches > 1 || plan.scope == Scope::Batch;
}

const SystemResult* modelled(const Report& report, const SystemResult& measured) {
  for (const SystemResult& other : report.results)
    if (other.system == measured.system && other.timeline.kind != ResultKind::Measured) return &other;
  return nullptr;
}

}  // namespace

SummaryRow summarize(const Report& report, const SystemResult& result) {
  SummaryRow row;
  row.result = &result;
  if (!phases_interleave(result.plan)) {
    row.forward = result.metrics.forward;
    row.backward = result.metrics.backward;
  }
  const auto first = std::find_if(report.results.begin(), report.results.end(), [&](const SystemResult& other) {
    return other.timeline.kind == result.timeline.kind;
  });
  if (first != report.results.end()) row.speedup = ratio(first->metrics.makespan, result.metrics.makespan);
  row.of_plan = std::isnan(result.lower_bound.value());
  row.over_bound = ratio(result.metrics.makespan, row.of_plan ? result.plan_bound : result.lower_bound);
  if (result.timeline.kind == ResultKind::Measured) row.expected = modelled(report, result);
  if (row.expected != nullptr) row.measured_ratio = ratio(result.metrics.makespan, row.expected->metrics.makespan);
  return row;
}

std::vector<SummaryRow> summarize(const Report& report) {
  std::vector<SummaryRow> rows;
  for (const SystemResult& result : report.results) rows.push_back(summarize(report, result));
  return rows;
}

std::string backward_degrees(const Plan& plan) {
  if (plan.backward_degrees.empty()) return std::to_string(plan.backward_degree);
  const auto [low, high] = std::minmax_element(plan.backward_degrees.begin(), plan.backward_degrees.end());
  return *low == *high ? std::to_string(*low) : fmt::format("{}..{}", *low, *high);
}

}  // namespace dovetail::reports
