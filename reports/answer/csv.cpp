// SPDX-License-Identifier: Apache-2.0
#include "reports/answer/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "models/base/names.hpp"
#include "models/results/ranking.hpp"
#include "reports/text/csv_cells.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

using Cells = std::vector<std::pair<const char*, std::string>>;  // by column

std::string cell(std::optional<double> value) {
  return csv_number(value);
}
std::string whole(int value) {
  return std::to_string(value);
}
std::string cell(Seconds value) {
  return csv_number(value.value());
}
std::string cell(Bytes value) {
  return csv_number(value.value());
}
std::string cell(std::optional<Seconds> value) {
  return value ? cell(*value) : "";
}
std::string yes_no(bool value) {
  return value ? "true" : "false";
}

void add_step(const SummaryRow& row, Cells& cells) {
  const SystemResult& r = *row.result;
  cells.insert(cells.end(), {{"system", csv_text(r.system)},
                             {"kind", std::string(name_in(result_kind_names, r.timeline.kind))},
                             {"backend", csv_text(r.backend)},
                             {"forward_degree", whole(r.plan.forward_degree)},
                             {"backward_degree", backward_degrees(r.plan)},
                             {"iteration_s", cell(r.metrics.makespan)},
                             {"forward_s", cell(row.forward)},
                             {"backward_s", cell(row.backward)},
                             {"speedup", cell(row.speedup)},
                             {"exposed_communication_s", cell(r.metrics.exposed_communication)},
                             {"lower_bound_s", cell(r.lower_bound)},
                             {"plan_bound_s", cell(r.plan_bound)},
                             {"peak_bytes", cell(r.memory.peak)},
                             {"feasible", yes_no(r.feasible)},
                             {"missing_bytes", r.feasible ? "" : cell(r.missing)}});
}

void add_run(const SummaryRow& row, Cells& cells) {
  const SystemResult& r = *row.result;
  const auto& run = r.run;
  cells.insert(cells.end(), {{"measured_over_modelled", cell(row.measured_ratio)},
                             {"ci95_low_s", run ? cell(run->ci95_low) : ""},
                             {"ci95_high_s", run ? cell(run->ci95_high) : ""},
                             {"dilation", run ? cell(run->dilation) : ""},
                             {"emulated_share", run ? cell(run->emulated_share) : ""},
                             {"overruns", run ? std::to_string(run->overruns) : ""},
                             {"interval_low_s", r.range ? cell(r.range->low * r.metrics.makespan) : ""},
                             {"interval_high_s", r.range ? cell(r.range->high * r.metrics.makespan) : ""}});
}

void add_layout(const SystemResult& r, Cells& cells) {
  const Parallelism& p = r.groups;
  for (const auto& [name, size] : {std::pair{"pp", p.pp},
                                   {"virtual_stages", r.plan.virtual_stages},
                                   {"mp", p.mp},
                                   {"dp", p.dp},
                                   {"ep", p.ep},
                                   {"esp", p.esp},
                                   {"edp", p.edp},
                                   {"micro_batch", r.micro_batch},
                                   {"micro_batches", r.plan.micro_batches},
                                   {"zero", r.plan.zero}})
    cells.emplace_back(name, whole(size));
}

void add_throughput(const Throughput& t, Cells& cells) {
  const bool known = t.tokens_per_second > 0;
  cells.insert(cells.end(), {{"tokens_per_second_of_gpu", known ? cell(t.of_gpu) : ""},
                             {"mfu", cell(t.mfu)},
                             {"exposed_share", known ? cell(t.exposed) : ""},
                             {"waiting_share", known ? cell(t.waiting) : ""}});
}

// `first`: the columns before those of every result.
Cells line_of(const Report& report, const SystemResult& result, Cells first) {
  Cells cells = std::move(first);
  const SummaryRow row = summarize(report, result);
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  add_step(row, cells);
  add_run(row, cells);
  add_layout(result, cells);
  add_throughput(result.throughput, cells);
  cells.emplace_back("tied", yes_no(std::ranges::find(tied, &result) != tied.end()));
  return cells;
}

std::vector<Cells> lines_of(const Report& report) {
  std::vector<Cells> lines;
  for (const SystemResult& result : report.results)
    lines.push_back(line_of(report, result, report.tuning ? Cells{{"role", "best"}} : Cells{}));
  if (report.tuning)
    for (const TunedSystem& system : report.tuning->systems)
      lines.push_back(line_of(report, system.own, {{"role", "system"}}));
  if (report.curve)
    for (const TuningPoint& point : report.curve->points)
      if (point.best)
        lines.push_back(line_of(report, *point.best,
                                {{"cluster", csv_text(point.cluster)},
                                 {"gpus", whole(point.gpus)},
                                 {"gpu_hours_of_trillion_tokens", cell(gpu_hours(*point.best, trillion))}}));
  return lines;
}

}  // namespace

void write_csv(std::ostream& out, const Report& report) {
  bool headed = false;
  for (const Cells& line : lines_of(report)) {
    std::vector<std::string> names, values;
    for (const auto& [name, value] : line) {
      names.emplace_back(name);
      values.push_back(value);
    }
    if (!std::exchange(headed, true)) out << fmt::format("{}\n", fmt::join(names, ","));
    out << fmt::format("{}\n", fmt::join(values, ","));
  }
}

}  // namespace dovetail::reports
