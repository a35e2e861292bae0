// SPDX-License-Identifier: Apache-2.0
#include "reports/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <utility>

#include "models/base/names.hpp"
#include "models/results/ranking.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/explanation_text.hpp"
#include "reports/text/format.hpp"
#include "reports/text/notes.hpp"
#include "reports/text/summary.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t name_width = 24, cell_width = 36;

// How a report is written.
struct Look {
  bool colour, verbose;
  std::size_t width() const { return verbose ? 118 : 98; }
};

double ms(Seconds time) {
  return time.value() * 1e3;
}

std::optional<double> ms(std::optional<Seconds> time) {
  return time ? std::optional(ms(*time)) : std::nullopt;
}

bool has_ranges(const Report& report) {
  return std::ranges::any_of(report.results, [](const SystemResult& r) { return r.range.has_value(); });
}

// One digit fewer where results say how sure they are: no step is known to four.
int ms_decimals(const Report& report) {
  std::vector<double> steps;
  for (const SystemResult& result : report.results) steps.push_back(ms(result.metrics.makespan));
  return std::max(0, decimals_for(steps) - (has_ranges(report) ? 1 : 0));
}

std::string range_text(const SystemResult& result, int decimals) {
  if (!result.range) return "-";
  const double step = ms(result.metrics.makespan);
  return fmt::format("{} - {}", fixed(result.range->low * step, decimals), fixed(result.range->high * step, decimals));
}

// A run's measured result is not faster than its prediction: only results of one kind compete.
std::ptrdiff_t compared(const Report& report) {
  return std::count_if(report.results.begin(), report.results.end(), [&](const SystemResult& result) {
    return result.timeline.kind == report.results.front().timeline.kind;
  });
}

std::string name_of(const SystemResult& result) {
  return printable(result.system, name_width);
}

std::string misfit(const Report& report, const SystemResult& result) {
  return fmt::format("{:{}}does not fit: {} too much for {} ({})", "", 4, bytes(result.missing),
                     bytes(report.experiment.cluster.device.memory), printable(report.experiment.cluster.device.name));
}

void write_header(std::ostream& out, const Report& report, Look look) {
  const auto lines = experiment_lines(report.experiment);
  out << inked(wrapped(printable(report.kind) + ": " + lines.front(), look.width(), 2), Ink::Bold, look.colour) << '\n';
  for (std::size_t i = 1; i < lines.size(); ++i) out << wrapped("  " + lines[i], look.width(), 2) << '\n';
}

// "dovetail: predicted 1944 ms a step (90 % range 1826 - 2914), 8086 tokens/s a GPU, MFU 18.9 %, 77.6 of 80.0 GiB".
std::string headline(const Report& report, const SystemResult& best) {
  const int decimals = ms_decimals(report);
  std::string line = fmt::format("{}: {} {} ms a step", name_of(best), name_in(result_kind_names, best.timeline.kind),
                                 fixed(ms(best.metrics.makespan), decimals));
  if (best.range) line += fmt::format(" (90 % range {})", range_text(best, decimals));
  const Throughput& t = best.throughput;
  if (t.tokens_per_second > 0) line += fmt::format(", {} tokens/s a GPU", significant(t.of_gpu));
  if (t.tokens_per_second > 0 && t.mfu) line += fmt::format(", MFU {:.3g} %", 100 * *t.mfu);
  return line + fmt::format(", {} of {}", bytes(best.memory.peak), bytes(report.experiment.cluster.device.memory));
}

// A run is held to modelled times, so that its step is no headline.
void write_headline(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, Look look) {
  if (rows.empty() || report.kind == "run" || !rows.front().result->feasible) return;
  const std::string line = headline(report, *rows.front().result);
  out << '\n'
      << inked(wrapped(compared(report) > 1 ? "fastest: " + line : line, look.width(), 2), Ink::Bold, look.colour)
      << '\n';
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

void add_refused(TextTable& table, const Report& report, std::size_t columns, Look look) {
  for (const RefusedSystem& refused : report.refused) {
    std::vector<std::string> cells(columns, "-");
    cells.front() = printable(refused.system, name_width);
    if (look.verbose) table.add(std::move(cells), Ink::Dim);
    const std::string name = look.verbose ? "" : printable(refused.system, name_width) + " ";
    table.add_remark(wrapped("    " + name + "left out: " + printable(refused.reason), look.width(), 4), Ink::Dim);
  }
}

void write_fastest(std::ostream& out, const Report& report, Look look) {
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  if (compared(report) < 2 || tied.size() < 2) return;
  std::string names;
  for (const SystemResult* result : tied) names += (names.empty() ? "" : ", ") + name_of(*result);
  const std::string tie = has_ranges(report)
                              ? fmt::format("a tie, as far as costs are known: {}", names)
                              : fmt::format("a tie: {} (within 1 %; costs are not known better than that)", names);
  out << inked(wrapped(tie, look.width(), 2), Ink::Good, look.colour) << '\n';
}

bool has_kinds(const Report& report) {
  return compared(report) < static_cast<std::ptrdiff_t>(report.results.size());
}

struct Column {
  std::string heading;
  std::function<std::string(const SummaryRow&)> cell;
};

// All columns but the name.
std::vector<Column> columns_of(const Report& report, const std::vector<SummaryRow>& rows, Look look) {
  const int decimals = ms_decimals(report);
  const auto in_ms = [decimals](std::optional<Seconds> time) { return fixed(ms(time), decimals); };
  const bool with_pipeline = has_micro_batches(report);
  const bool with_phases =
      look.verbose || std::ranges::any_of(rows, [](const SummaryRow& r) { return r.forward.has_value(); });
  std::vector<Column> columns{{"degree\nfwd / bwd", [](const SummaryRow& row) {
                                 const Plan& plan = row.result->plan;
                                 return fmt::format("{} / {}", plan.forward_degree, backward_degrees(plan));
                               }}};
  const auto add = [&](bool shown, const char* heading, std::function<std::string(const SummaryRow&)> cell) {
    if (shown) columns.push_back({heading, std::move(cell)});
  };
  add(with_pipeline, "micro-\nbatches", [](const SummaryRow& row) { return pipeline(row.result->plan); });
  add(true, "step\nms", [=](const SummaryRow& row) { return in_ms(row.result->metrics.makespan); });
  add(has_ranges(report), "90 %\nrange ms", [=](const SummaryRow& row) { return range_text(*row.result, decimals); });
  add(with_phases, "forward\nms", [=](const SummaryRow& row) { return in_ms(row.forward); });
  add(with_phases, "backward\nms", [=](const SummaryRow& row) { return in_ms(row.backward); });
  add(true, "speed-up\nx", [](const SummaryRow& row) { return fixed(row.speedup, 2); });
  add(true, "exposed\ncomm ms",
      [=](const SummaryRow& row) { return in_ms(row.result->metrics.exposed_communication); });
  add(true, "peak\nGiB", [](const SummaryRow& row) { return fixed(row.result->memory.peak.value() / gib, 2); });
  add(look.verbose, "of lower\nbound x",
      [](const SummaryRow& row) { return fixed(row.over_bound, 2) + (row.of_plan ? " p" : ""); });
  add(look.verbose || has_kinds(report), "\nresult",
      [](const SummaryRow& row) { return std::string(name_in(result_kind_names, row.result->timeline.kind)); });
  return columns;
}

// Results that a table shows in one line.
struct Line {
  const SummaryRow* row;
  std::vector<std::string> cells;
  std::string others;  // names
};

std::vector<Line> lines_of(const std::vector<SummaryRow>& rows, const std::vector<Column>& columns, Look look) {
  std::vector<Line> lines;
  for (const SummaryRow& row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(row));
    const auto same = look.verbose ? lines.end() : std::ranges::find(lines, cells, &Line::cells);
    if (same == lines.end())
      lines.push_back({&row, std::move(cells), ""});
    else
      same->others += (same->others.empty() ? "" : ", ") + name_of(*row.result);
  }
  return lines;
}

void write_results(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, Look look) {
  const std::vector<Column> columns = columns_of(report, rows, look);
  std::vector<std::string> headings{"\nsystem"};
  for (const Column& column : columns) headings.push_back(column.heading);
  const std::vector<const SystemResult*> best = tied_fastest(report);
  TextTable table(headings);
  for (Line& line : lines_of(rows, columns, look)) {
    const SystemResult& result = *line.row->result;
    const bool good = compared(report) > 1 && std::ranges::find(best, &result) != best.end();
    line.cells.insert(line.cells.begin(), name_of(result));
    table.add(std::move(line.cells), !result.feasible ? Ink::Bad : good ? Ink::Good : Ink::Plain);
    if (!line.others.empty()) table.add_remark(wrapped("    alike: " + line.others, look.width(), 4), Ink::Dim);
    if (!result.feasible) table.add_remark(misfit(report, result), Ink::Bad);
  }
  add_refused(table, report, headings.size(), look);
  out << '\n' << table.text(look.colour);
  if (look.verbose && std::ranges::any_of(rows, &SummaryRow::of_plan))
    out << "p: of this plan's own bound, its longest stream or chain of operations as they were measured\n";
  write_fastest(out, report, look);
}

std::string clock_text(const ClockReading& clock) {
  return clock.mhz > 0 ? fmt::format("; at {:.0f} MHz and {:.0f} W", clock.mhz, clock.watts) : "";
}

std::string numerics_line(const RunReport& run) {
  if (!run.numerics_checked) return "    outputs and gradients were not compared with the reference";
  const double error = std::max(run.output_error, run.gradient_error);
  return fmt::format("    outputs and gradients equal the reference: {} (error {:.1e})", run.numerics_ok ? "yes" : "NO",
                     error);
}

std::string training_line(const TrainingReport& training) {
  std::string line = fmt::format("    loss {:.4f} at step 1, {:.4f} at step {}", training.losses.front(),
                                 training.losses.back(), training.losses.size());
  if (training.reference_losses.empty()) return line;
  const std::string_view equal = !training.tolerance ? "not judged" : training.ok ? "yes" : "NO";
  return line + fmt::format("; equal to the sequential training: {} (error {:.1e})", equal, training.loss_error);
}

void write_runs(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, Look look) {
  const int decimals = ms_decimals(report);
  TextTable table({"\nmeasured beside modelled", "modelled\nms", "measured\nms", "95 %\ninterval ms",
                   "measured /\nmodelled", "\ndilation", "emulated\nshare %", "\noverruns", "\nsamples"});
  bool any = false;
  for (const SummaryRow& row : rows) {
    if (!row.result->run) continue;
    any = true;
    const RunReport& run = *row.result->run;
    const auto modelled = row.expected ? std::optional(ms(row.expected->metrics.makespan)) : std::nullopt;
    table.add({name_of(*row.result), fixed(modelled, decimals), fixed(ms(row.result->metrics.makespan), decimals),
               fixed(ms(run.ci95_low), decimals) + " - " + fixed(ms(run.ci95_high), decimals),
               fixed(row.measured_ratio, 3), fixed(run.dilation, 1), fixed(run.emulated_share * 100, 0),
               std::to_string(run.overruns), std::to_string(run.samples.size())});
    table.add_remark(numerics_line(run), !run.numerics_checked ? Ink::Dim : run.numerics_ok ? Ink::Good : Ink::Bad);
    if (run.training) table.add_remark(training_line(*run.training), run.training->ok ? Ink::Good : Ink::Bad);
    table.add_remark(printable(fmt::format("    on {} over {}, {} ranks; stopped by {}{}", run.device, run.transport,
                                           run.ranks, run.stopped_by, clock_text(run.clock))),
                     Ink::Dim);
  }
  if (any) out << '\n' << table.text(look.colour);
}

void write_sections(std::ostream& out, const Report& report, Look look) {
  for (const Section& section : sections()) {
    const SectionTable content = section.table(report);
    if (content.rows.empty() || (!look.verbose && !section.brief)) continue;
    TextTable table(content.headings);
    for (const std::vector<std::string>& row : content.rows) {
      std::vector<std::string> cells;
      for (const std::string& cell : row) cells.push_back(printable(cell, cell_width));
      table.add(std::move(cells));
    }
    out << '\n' << inked(section.title, Ink::Bold, look.colour) << '\n' << table.text(look.colour);
  }
}

void write_reasons(std::ostream& out, const std::vector<SummaryRow>& rows, Look look) {
  std::string text;
  for (const SummaryRow& row : rows) {
    const PlannerReport& planner = row.result->planner;
    if (planner.reason.empty() || row.result->timeline.kind == ResultKind::Measured) continue;
    std::string line = fmt::format("  {} ({}): {}", row.result->system, planner.name, planner.reason);
    if (planner.runner_up) line += fmt::format("; runner-up {}", *planner.runner_up);
    if (planner.regret && *planner.regret < 1e-4) line += "; the best of all plans";
    if (planner.regret && *planner.regret >= 1e-4)
      line += fmt::format("; {:.2f} % slower than the best of all plans", *planner.regret * 100);
    if (planner.evaluations > 1)
      line += fmt::format("; {} plans evaluated in {}", planner.evaluations, duration(planner.time));
    text += wrapped(printable(line), look.width(), 4) + '\n';
  }
  if (!text.empty()) out << '\n' << inked("why", Ink::Bold, look.colour) << '\n' << text;
}

// Systems that could choose the same stand in one line.
void write_choices(std::ostream& out, const std::vector<SummaryRow>& rows, Look look) {
  std::vector<std::pair<std::string, std::string>> lines;  // choices and names
  for (const SummaryRow& row : rows) {
    const std::string& choices = row.result->planner.choices;
    if (row.result->timeline.kind == ResultKind::Measured) continue;
    const std::string text = choices.empty() ? "nothing" : choices;
    const auto known = std::ranges::find(lines, text, &std::pair<std::string, std::string>::first);
    if (known == lines.end())
      lines.emplace_back(text, name_of(*row.result));
    else
      known->second += ", " + name_of(*row.result);
  }
  if (rows.size() < 2) return;
  out << '\n' << inked("what each may choose", Ink::Bold, look.colour) << '\n';
  for (const auto& [choices, names] : lines)
    out << wrapped(printable(fmt::format("  {}: {}", names, choices)), look.width(), 4) << '\n';
}

// "one, s4, double" is what sets a point of a front apart.
std::string memory_knobs(const Plan& plan) {
  std::string text = fmt::format("degree {} / {}", plan.forward_degree, backward_degrees(plan));
  if (plan.restore != Restore::Keep) text += fmt::format(", restore {}", name_in(restore_names, plan.restore));
  if (plan.buffers != Buffers::PerChunk) text += fmt::format(", buffers {}", name_in(buffers_names, plan.buffers));
  if (plan.micro_batches > 1) text += fmt::format(", {} micro-batches", plan.micro_batches);
  return text;
}

void write_fronts(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, Look look) {
  for (const SummaryRow& row : rows) {
    const std::vector<FrontPoint>& front = row.result->planner.front;
    if (front.size() < 2 || row.result->timeline.kind == ResultKind::Measured) continue;
    out << '\n'
        << inked(printable(fmt::format("time against memory, of the plans that {} looked at", row.result->system)),
                 Ink::Bold, look.colour)
        << '\n';
    for (const FrontPoint& point : front)
      out << fmt::format("  {:>9} ms {:>8.2f} GiB  {}\n", fixed(ms(point.time), ms_decimals(report)),
                         point.memory.value() / gib, memory_knobs(point.plan));
  }
}

void write_explanation(std::ostream& out, const Report& report, Look look) {
  if (!report.explanation) return;
  out << '\n' << inked("explanation", Ink::Bold, look.colour) << '\n';
  for (const std::string& paragraph : explanation_text(*report.explanation))
    out << wrapped("  " + printable(paragraph), look.width(), 2) << '\n';
}

}  // namespace

void write_table(std::ostream& out, const Report& report, bool colour, bool verbose) {
  const Look look{colour, verbose};
  std::vector<SummaryRow> rows = summarize(report);
  if (!has_kinds(report))
    std::ranges::stable_sort(
        rows, {}, [](const SummaryRow& row) { return std::pair(!row.result->feasible, row.result->metrics.makespan); });
  write_header(out, report, look);
  write_headline(out, report, rows, look);
  write_results(out, report, rows, look);
  write_runs(out, report, rows, look);
  write_explanation(out, report, look);
  const bool alone = report.results.size() == 1;
  if (verbose || alone) write_sections(out, report, look);
  if (verbose) write_choices(out, rows, look);
  if (verbose || alone) write_reasons(out, rows, look);
  if (verbose) write_fronts(out, report, rows, look);
  constexpr std::size_t few = 6;
  write_notes(out, report.notes, colour, look.width(), verbose ? std::string::npos : few);
}

}  // namespace dovetail::reports
