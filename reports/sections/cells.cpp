// SPDX-License-Identifier: Apache-2.0
#include "reports/sections/cells.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/results/ranking.hpp"

namespace dovetail::reports {

const SystemResult* best_of(const Report& report) {
  const SystemResult* best = fastest(report);
  return best == nullptr && !report.results.empty() ? &report.results.front() : best;
}

bool is_measured(const SystemResult& result) {
  return result.timeline.kind == ResultKind::Measured;
}

std::ptrdiff_t compared(const Report& report) {
  return std::ranges::count_if(report.results, [&](const SystemResult& result) {
    return result.timeline.kind == report.results.front().timeline.kind;
  });
}

std::string name_of(const SystemResult& result) {
  constexpr std::size_t name_width = 24;
  return printable(result.system, name_width);
}

bool has_ranges(const Report& report) {
  return std::ranges::any_of(report.results, [](const SystemResult& r) { return r.range.has_value(); });
}

int ms_decimals(const Report& report) {
  std::vector<double> steps;
  for (const SystemResult& result : report.results) steps.push_back(1e3 * result.metrics.makespan.value());
  return std::max(0, decimals_for(steps) - (has_ranges(report) ? 1 : 0));
}

std::string in_ms(Seconds time, int decimals) {
  return fixed(1e3 * time.value(), decimals);
}

std::string in_ms(std::optional<Seconds> time, int decimals) {
  return time ? in_ms(*time, decimals) : "-";
}

std::string range_text(const SystemResult& result, int decimals) {
  if (!result.range) return "-";
  const Seconds step = result.metrics.makespan;
  return fmt::format("{} - {}", in_ms(result.range->low * step, decimals), in_ms(result.range->high * step, decimals));
}

std::string in_gib(Bytes amount, int decimals) {
  return fixed(amount.value() / gib, decimals);
}

const std::vector<std::string>& layout_headings() {
  static const std::vector<std::string> headings{"pp",  "stages\nof each", "mp",       "dp",  "ep",
                                                 "esp", "micro\nbatch",    "of\nthem", "zero"};
  return headings;
}

std::vector<std::string> layout_cells(const SystemResult& result) {
  const Parallelism& p = result.groups;
  std::vector<std::string> cells;
  for (const int size : {p.pp, result.plan.virtual_stages, p.mp, p.dp, p.ep, p.esp, result.micro_batch,
                         result.plan.micro_batches, result.plan.zero})
    cells.push_back(std::to_string(size));
  return cells;
}

std::string layout_text(const SystemResult& result) {
  const Parallelism& p = result.groups;
  const int parts = result.plan.micro_batches;
  return fmt::format("pp {}, mp {}, dp {}, ep {}, esp {}, {} micro-batch{} of {}", p.pp, p.mp, p.dp, p.ep, p.esp, parts,
                     parts == 1 ? "" : "es", result.micro_batch);
}

std::string price_of_training(const SystemResult& result, double gpu_watts) {
  std::string text = fmt::format("{} GPU-hours for 1e12 tokens", significant(gpu_hours(result, trillion)));
  if (gpu_watts > 0)
    text += fmt::format(" and {} MWh, at {:g} W for each GPU", significant(megawatt_hours(result, trillion, gpu_watts)),
                        gpu_watts);
  return text;
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

}  // namespace dovetail::reports
