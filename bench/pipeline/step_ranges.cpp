#include "bench/pipeline/step_ranges.hpp"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "bench/pipeline/backends.hpp"

namespace dovetail::bench {

bool is_by_costs(const SystemResult& result) {
  const BackendEntry* backend = find_backend(result.backend);
  return result.timeline.kind != ResultKind::Measured && backend != nullptr && !backend->links_alone;
}

void add_step_ranges(const Options& options, Report& report) {
  if (options.draws == 0) return;
  std::vector<SystemResult*> results;
  std::vector<std::shared_ptr<const Schedule>> schedules;
  for (SystemResult& result : report.results)
    if (is_by_costs(result)) {
      results.push_back(&result);
      schedules.push_back(result.schedule);
    }
  if (results.empty()) return;
  const int draws = affordable_draws(schedules, options.draws);
  std::vector<StepRange> ranges =
      step_ranges(report.experiment, schedules, draws, static_cast<std::uint64_t>(options.seed));
  for (std::size_t i = 0; i < results.size(); ++i) results[i]->range = std::move(ranges[i]);
  report.notes.push_back(
      fmt::format("90 % range: the step in 90 % of {} draws of all costs, each within the range in which it is known; "
                  "what the model "
                  "leaves out is not in it",
                  draws));
}

}  // namespace dovetail::bench
