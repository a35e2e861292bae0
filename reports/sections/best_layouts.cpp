// SPDX-License-Identifier: Apache-2.0
// The best plan of each layout, the fastest first.
#include <fmt/format.h>

#include <algorithm>

#include "models/results/ranking.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t few_plans = 5;  // without -v

std::vector<std::string> figure_headings(bool all) {
  if (!all) return {"step\nms", "MFU\n%", "memory\nGiB"};
  return {"step\nms", "tokens/s\na GPU", "MFU\n%", "memory\nGiB", "free\nGiB", "exposed\n%", "idle\n%"};
}

std::vector<std::string> figure_cells(const Report& report, const SystemResult& plan, bool all) {
  const Throughput& t = plan.throughput;
  const std::string step = in_ms(plan.metrics.makespan, ms_decimals(report));
  const std::string mfu = t.mfu ? fixed(100 * *t.mfu, 1) : "-";
  if (!all) return {step, mfu, in_gib(plan.memory.peak)};
  return {step,
          fixed(t.of_gpu, 0),
          mfu,
          in_gib(plan.memory.peak),
          in_gib(report.experiment.cluster.device.memory - plan.memory.peak),
          fixed(100 * t.exposed, 1),
          fixed(100 * t.waiting, 1)};
}

SectionContent best_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!report.tuning || report.results.empty()) return content;
  const bool all = detail != Detail::Brief, ranges = has_ranges(report);
  content.headings = joined(joined({"rank"}, layout_headings()), figure_headings(all));
  if (ranges) content.headings.emplace_back("90 % range\nms");
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  for (std::size_t i = 0; i < std::min(all ? report.results.size() : few_plans, report.results.size()); ++i) {
    const SystemResult& plan = report.results[i];
    const bool tie = i > 0 && std::ranges::find(tied, &plan) != tied.end();
    std::vector<std::string> cells = joined(
        joined({fmt::format("{}{}", i + 1, tie ? " tied" : "")}, layout_cells(plan)), figure_cells(report, plan, all));
    if (ranges) cells.push_back(range_text(plan, 0));
    content.rows.push_back({std::move(cells), i == 0 ? Mark::Best : Mark::None});
  }
  return content;
}

}  // namespace

Section best_layouts() {
  return {"the best plans, one for each layout", Titled::Always,
          "Tied: not known to be slower than the first. Idle: neither computation nor communication runs.",
          best_content};
}

}  // namespace dovetail::reports
