// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/step_ranges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/evaluate.hpp"
#include "models/base/errors.hpp"
#include "models/price/calibration.hpp"
#include "planners/steps/estimated_ratios.hpp"

namespace dovetail::bench {
namespace {

using planners::EstimatedRatios;
using Timed = std::vector<SystemResult*>;

// Operations in all draws of which steps are simulated, which take a quarter of a second; by choice.
constexpr double most_simulated = 1e6;

bool take_long(const Timed& results, int draws) {
  double ops = 0;
  for (const SystemResult* result : results) ops += static_cast<double>(result->schedule->ops.size());
  return ops * draws > most_simulated;
}

// None where a step is not estimated.
std::optional<EstimatedRatios> estimated(const Report& report, const Timed& results) try {
  if (!EstimatedRatios::apply_to(report.experiment)) return std::nullopt;
  std::vector<EstimatedRatios::Step> steps;
  for (const SystemResult* result : results) steps.push_back({as_run(report.experiment, *result), result->plan});
  return EstimatedRatios(std::move(steps));
} catch (const InputError&) {
  return std::nullopt;
}

struct Ranges {
  std::vector<StepRange> steps;
  int draws = 0;
  bool by_estimate = false;
};
Ranges ranges_of(const Report& report, const Timed& results, const Options& options) {
  const auto seed = static_cast<std::uint64_t>(options.seed);
  if (take_long(results, options.draws))
    if (std::optional<EstimatedRatios> ratios = estimated(report, results)) {
      const auto with = [&](Calibration costs) { return (*ratios)(Shared<Calibration>(std::move(costs))); };
      return {step_ranges(report.experiment, results.size(), with, options.draws, seed), options.draws, true};
    }
  std::vector<std::shared_ptr<const Schedule>> schedules;
  for (const SystemResult* result : results) schedules.push_back(result->schedule);
  const int draws = affordable_draws(schedules, options.draws);
  return {step_ranges(report.experiment, schedules, draws, seed), draws};
}

}  // namespace

bool is_by_costs(const SystemResult& result) {
  const BackendEntry* backend = find_backend(result.backend);
  return result.timeline.kind != ResultKind::Measured && backend != nullptr && !backend->links_alone;
}

void add_step_ranges(const Options& options, Report& report) {
  if (options.draws == 0) return;
  Timed results;
  for (SystemResult& result : report.results)
    if (is_by_costs(result)) results.push_back(&result);
  if (results.empty()) return;
  Ranges ranges = ranges_of(report, results, options);
  for (std::size_t i = 0; i < results.size(); ++i) results[i]->range = std::move(ranges.steps[i]);
  report.notes.push_back(
      range_note(report.experiment.framework, ranges.by_estimate ? "estimated step" : "step", ranges.draws));
}

}  // namespace dovetail::bench
