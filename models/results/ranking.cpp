#include "models/results/ranking.hpp"

namespace dovetail {
namespace {

// One draw gives both the same costs.
bool surely_slower(const SystemResult& result, const SystemResult& best) {
  constexpr double tie = 1.01, sure = .95;
  if (result.metrics.makespan < tie * best.metrics.makespan) return false;
  if (!result.range || !best.range || result.range->draws.size() != best.range->draws.size()) return true;
  std::size_t slower = 0;
  for (std::size_t i = 0; i < result.range->draws.size(); ++i)
    if (result.range->draws[i] * result.metrics.makespan > best.range->draws[i] * best.metrics.makespan) ++slower;
  return static_cast<double>(slower) >= sure * static_cast<double>(result.range->draws.size());
}

}  // namespace

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
    if (result.feasible && result.timeline.kind == best->timeline.kind && !surely_slower(result, *best))
      tied.push_back(&result);
  return tied;
}

}  // namespace dovetail
