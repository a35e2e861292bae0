// SPDX-License-Identifier: Apache-2.0
#include "reports/answer/headline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/names.hpp"
#include "reports/sections/cells.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

std::string for_text(const std::string& framework) {
  return fmt::format("for {}: plans that it runs as they are", framework);
}

std::vector<std::string> lines_of(const Experiment& e, const Tuning& tuning) {
  std::vector<std::string> lines{
      fmt::format("{} on {}, {} nodes x {} GPUs", printable(e.model.name), printable(e.cluster.name), e.cluster.nodes,
                  e.cluster.gpus_per_node),
      workload_text(e, fmt::format("{} samples of {} tokens", tuning.global_batch, e.workload.sequence)),
      fmt::format("{}; {} of {} of memory may be used", costs_text(e), bytes(tuning.limit),
                  bytes(e.cluster.device.memory))};
  if (tuning.framework)
    lines.push_back(for_text(fmt::format("{} ({})", tuning.framework->name, tuning.framework->checked)));
  return lines;
}

std::vector<std::string> lines_of(const TuningCurve& curve) {
  std::vector<std::string> lines{fmt::format("{}: {}", printable(curve.model), curve.workload)};
  if (curve.gpu_watts > 0) lines.push_back(fmt::format("{:g} W for each GPU, as given", curve.gpu_watts));
  if (!curve.framework.empty()) lines.push_back(for_text(curve.framework));
  return lines;
}

std::string figures_of(const Report& report, const SystemResult& best) {
  const int decimals = ms_decimals(report);
  std::string text = fmt::format("{} {} ms a step", name_in(result_kind_names, best.timeline.kind),
                                 in_ms(best.metrics.makespan, decimals));
  if (best.range) text += fmt::format(" (90 % range {})", range_text(best, decimals));
  const Throughput& t = best.throughput;
  if (t.tokens_per_second > 0) text += fmt::format(", {} tokens/s a GPU", significant(t.of_gpu));
  if (t.tokens_per_second > 0 && t.mfu) text += fmt::format(", MFU {:.3g} %", 100 * *t.mfu);
  return text + fmt::format(", {} of {}", bytes(best.memory.peak), bytes(report.experiment.cluster.device.memory));
}

std::string misfit(const Report& report) {
  const SystemResult& first = report.results.front();
  const Device& device = report.experiment.cluster.device;
  if (report.results.size() == 1)
    return fmt::format("{} does not fit: {} too much", name_of(first), bytes(first.missing));
  return fmt::format("no system fits the {} of {}", bytes(device.memory), printable(device.name));
}

// A run is held to modelled times, so that its step alone says nothing.
std::string measured(const Report& report) {
  for (const SummaryRow& row : summarize(report))
    if (row.measured_ratio)
      return fmt::format("{}: measured {} a step, {} x the modelled time", name_of(*row.result),
                         duration(row.result->metrics.makespan), fixed(row.measured_ratio, 3));
  return "";
}

}  // namespace

std::vector<std::string> question_lines(const Report& report) {
  if (report.curve) return lines_of(*report.curve);
  return report.tuning ? lines_of(report.experiment, *report.tuning) : experiment_lines(report.experiment);
}

std::string headline(const Report& report) {
  if (report.results.empty()) return "";
  if (report.kind == "run") return measured(report);
  const SystemResult& best = *best_of(report);
  if (!best.feasible) return misfit(report);
  const std::string figures = figures_of(report, best);
  if (report.tuning) return fmt::format("best: {}; {}", figures, price_of_training(best, report.tuning->gpu_watts));
  return fmt::format("{}{}: {}", compared(report) > 1 ? "fastest: " : "", name_of(best), figures);
}

}  // namespace dovetail::reports
