// SPDX-License-Identifier: Apache-2.0
// A line for each system or plan on one layout, the fastest first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "models/base/names.hpp"
#include "models/results/ranking.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/left_out.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

struct Column {
  std::string heading;
  std::function<std::string(const SummaryRow&)> cell;
};

bool has_kinds(const Report& report) {
  return compared(report) < static_cast<std::ptrdiff_t>(report.results.size());
}

// "16 1f1b"; one micro-batch has no order.
std::string pipeline(const Plan& plan) {
  if (plan.micro_batches == 1) return "1";
  return fmt::format("{} {}", plan.micro_batches, name_in(pipeline_schedule_names, plan.pipeline_schedule));
}

bool has_micro_batches(const Report& report) {
  return report.experiment.parallelism.pp > 1 ||
         std::ranges::any_of(report.results, [](const SystemResult& r) { return r.plan.micro_batches > 1; });
}

// All columns but the name.
std::vector<Column> columns_of(const Report& report, const std::vector<SummaryRow>& rows, bool all) {
  const int decimals = ms_decimals(report);
  const bool with_phases = all || std::ranges::any_of(rows, [](const SummaryRow& r) { return r.forward.has_value(); });
  std::vector<Column> columns{{"degree\nfwd / bwd", [](const SummaryRow& row) {
                                 const Plan& plan = row.result->plan;
                                 return fmt::format("{} / {}", plan.forward_degree, backward_degrees(plan));
                               }}};
  const auto add = [&](bool shown, const char* heading, std::function<std::string(const SummaryRow&)> cell) {
    if (shown) columns.push_back({heading, std::move(cell)});
  };
  add(has_micro_batches(report), "micro-\nbatches", [](const SummaryRow& row) { return pipeline(row.result->plan); });
  add(true, "step\nms", [=](const SummaryRow& row) { return in_ms(row.result->metrics.makespan, decimals); });
  add(has_ranges(report), "90 %\nrange ms", [=](const SummaryRow& row) { return range_text(*row.result, decimals); });
  add(with_phases, "forward\nms", [=](const SummaryRow& row) { return in_ms(row.forward, decimals); });
  add(with_phases, "backward\nms", [=](const SummaryRow& row) { return in_ms(row.backward, decimals); });
  add(true, "speed-up\nx", [](const SummaryRow& row) { return fixed(row.speedup, 2); });
  add(true, "exposed\ncomm ms",
      [=](const SummaryRow& row) { return in_ms(row.result->metrics.exposed_communication, decimals); });
  add(true, "peak\nGiB", [](const SummaryRow& row) { return in_gib(row.result->memory.peak, 2); });
  add(all, "of lower\nbound x",
      [](const SummaryRow& row) { return fixed(row.over_bound, 2) + (row.of_plan ? " p" : ""); });
  add(all || has_kinds(report), "\nresult",
      [](const SummaryRow& row) { return std::string(name_in(result_kind_names, row.result->timeline.kind)); });
  return columns;
}

// Results that a table shows in one line.
struct Line {
  const SummaryRow* row;
  std::vector<std::string> cells;
  std::vector<std::string> others;  // names
};

std::vector<Line> lines_of(const std::vector<SummaryRow>& rows, const std::vector<Column>& columns, bool each) {
  std::vector<Line> lines;
  for (const SummaryRow& row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(row));
    const auto same = each ? lines.end() : std::ranges::find(lines, cells, &Line::cells);
    if (same == lines.end())
      lines.push_back({&row, std::move(cells), {}});
    else
      same->others.push_back(name_of(*row.result));
  }
  return lines;
}

std::string misfit(const Report& report, const SystemResult& result) {
  const Device& device = report.experiment.cluster.device;
  return fmt::format("does not fit: {} too much for {} ({})", bytes(result.missing), bytes(device.memory), device.name);
}

SectionRow row_of(const Report& report, Line line, const std::vector<const SystemResult*>& best) {
  const SystemResult& result = *line.row->result;
  const bool good = compared(report) > 1 && std::ranges::find(best, &result) != best.end();
  SectionRow row{joined({name_of(result)}, line.cells), !result.feasible ? Mark::Bad : good ? Mark::Good : Mark::None};
  if (!line.others.empty()) row.remarks.push_back({fmt::format("alike: {}", fmt::join(line.others, ", ")), Mark::Dim});
  if (!result.feasible) row.remarks.push_back({misfit(report, result), Mark::Bad});
  return row;
}

void add_tie(const Report& report, const std::vector<SummaryRow>& rows, SectionContent& content) {
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  if (compared(report) < 2 || tied.size() < 2) return;
  std::vector<std::string> names;
  for (const SummaryRow& row : rows)
    if (std::ranges::find(tied, row.result) != tied.end()) names.push_back(name_of(*row.result));
  content.lines.push_back(
      {has_ranges(report)
           ? fmt::format("a tie, as far as costs are known: {}", fmt::join(names, ", "))
           : fmt::format("a tie: {} (within 1 %; costs are not known better than that)", fmt::join(names, ", ")),
       Mark::Good});
}

SectionContent results_content(const Report& report, Detail detail) {
  SectionContent content;
  if (report.results.empty() || report.tuning) return content;
  const bool all = detail != Detail::Brief;
  std::vector<SummaryRow> rows = summarize(report);
  if (!has_kinds(report))
    std::ranges::stable_sort(
        rows, {}, [](const SummaryRow& row) { return std::pair(!row.result->feasible, row.result->metrics.makespan); });
  const std::vector<Column> columns = columns_of(report, rows, all);
  content.headings = {"\nsystem"};
  for (const Column& column : columns) content.headings.push_back(column.heading);
  const std::vector<const SystemResult*> best = tied_fastest(report);
  for (Line& line : lines_of(rows, columns, all)) content.rows.push_back(row_of(report, std::move(line), best));
  for (std::string& line : left_out_lines(report.refused, !all)) content.lines.push_back({std::move(line), Mark::Dim});
  if (all && std::ranges::any_of(rows, &SummaryRow::of_plan))
    content.lines.push_back(
        {"p: of this plan's own bound, its longest stream or chain of operations as they were measured"});
  add_tie(report, rows, content);
  return content;
}

}  // namespace

Section results() {
  return {"results", Titled::OnPages,
          "Exposed communication: time with communication running and no computation. Lower bound: what the plan's "
          "work needs of its busiest resource.",
          results_content};
}

}  // namespace dovetail::reports
