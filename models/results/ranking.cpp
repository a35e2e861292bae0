// SPDX-License-Identifier: Apache-2.0
#include "models/results/ranking.hpp"

namespace dovetail {

bool surely_slower(Seconds step, const std::optional<StepRange>& range, Seconds best,
                   const std::optional<StepRange>& of_best) {
  constexpr double tie = 1.01, sure = .95;
  if (step < tie * best) return false;
  if (!range || !of_best || range->draws.size() != of_best->draws.size()) return true;
  std::size_t slower = 0;
  for (std::size_t i = 0; i < range->draws.size(); ++i)
    if (range->draws[i] * step > of_best->draws[i] * best) ++slower;
  return static_cast<double>(slower) >= sure * static_cast<double>(range->draws.size());
}

const SystemResult* fastest(const Report& report) {
  const SystemResult* best = nullptr;
  for (const SystemResult& result : report.results) {
    if (!result.feasible || result.timeline.kind != report.results.front().timeline.kind) continue;
    if (best == nullptr || result.metrics.makespan < best->metrics.makespan) best = &result;
  }
  return best;
}

std::vector<const SystemResult*> tied_fastest(const Report& report) {
  std::vector<const SystemResult*> tied;
  const SystemResult* best = fastest(report);
  if (best == nullptr) return tied;
  for (const SystemResult& result : report.results)
    if (result.feasible && result.timeline.kind == best->timeline.kind &&
        !surely_slower(result.metrics.makespan, result.range, best->metrics.makespan, best->range))
      tied.push_back(&result);
  return tied;
}

}  // namespace dovetail
