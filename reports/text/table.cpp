// SPDX-License-Identifier: Apache-2.0
#include "reports/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "models/base/names.hpp"
#include "models/results/ranking.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/explanation_text.hpp"
#include "reports/text/format.hpp"
#include "reports/text/summary.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t page_width = 118, name_width = 24, cell_width = 36;

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

void write_header(std::ostream& out, const Report& report, bool colour) {
  const auto lines = experiment_lines(report.experiment);
  out << inked(wrapped(printable(report.kind) + ": " + lines.front(), page_width, 2), Ink::Bold, colour) << '\n';
  for (std::size_t i = 1; i < lines.size(); ++i) out << wrapped("  " + lines[i], page_width, 2) << '\n';
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

void add_refused(TextTable& table, const Report& report, std::size_t columns) {
  for (const RefusedSystem& refused : report.refused) {
    std::vector<std::string> cells(columns, "-");
    cells.front() = printable(refused.system, name_width);
    table.add(std::move(cells), Ink::Dim);
    table.add_remark(wrapped("    left out: " + printable(refused.reason), page_width, 4), Ink::Dim);
  }
}

void write_fastest(std::ostream& out, const Report& report, bool colour) {
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  if (compared(report) < 2 || tied.size() < 2) return;
  std::string names;
  for (const SystemResult* result : tied) names += (names.empty() ? "" : ", ") + name_of(*result);
  const std::string tie = has_ranges(report)
                              ? fmt::format("a tie, as far as costs are known: {}", names)
                              : fmt::format("a tie: {} (within 1 %; costs are not known better than that)", names);
  out << inked(wrapped(tie, page_width, 2), Ink::Good, colour) << '\n';
}

void write_results(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, bool colour) {
  const int decimals = ms_decimals(report);
  const bool with_pipeline = has_micro_batches(report);
  const std::vector<const SystemResult*> best = tied_fastest(report);
  std::vector<std::string> headings{"\nsystem",          "degree\nfwd / bwd", "step\nms",         "forward\nms",
                                    "backward\nms",      "speed-up\nx",       "exposed\ncomm ms", "peak\nGiB",
                                    "of lower\nbound x", "\nresult"};
  const bool with_ranges = has_ranges(report);
  if (with_ranges) headings.insert(headings.begin() + 3, "90 %\nrange ms");
  if (with_pipeline) headings.insert(headings.begin() + 2, "micro-\nbatches");
  TextTable table(headings);
  for (const SummaryRow& row : rows) {
    const SystemResult& result = *row.result;
    const bool good = compared(report) > 1 && std::ranges::find(best, &result) != best.end();
    const Ink ink = !result.feasible ? Ink::Bad : good ? Ink::Good : Ink::Plain;
    std::vector<std::string> cells{name_of(result),
                                   fmt::format("{} / {}", result.plan.forward_degree, backward_degrees(result.plan)),
                                   fixed(ms(result.metrics.makespan), decimals),
                                   fixed(ms(row.forward), decimals),
                                   fixed(ms(row.backward), decimals),
                                   fixed(row.speedup, 2),
                                   fixed(ms(result.metrics.exposed_communication), decimals),
                                   fixed(result.memory.peak.value() / gib, 2),
                                   fixed(row.over_bound, 2) + (row.of_plan ? " p" : ""),
                                   std::string(name_in(result_kind_names, result.timeline.kind))};
    if (with_ranges) cells.insert(cells.begin() + 3, range_text(result, decimals));
    if (with_pipeline) cells.insert(cells.begin() + 2, pipeline(result.plan));
    table.add(std::move(cells), ink);
    if (!result.feasible) table.add_remark(misfit(report, result), Ink::Bad);
  }
  add_refused(table, report, headings.size());
  out << '\n' << table.text(colour);
  if (std::ranges::any_of(rows, &SummaryRow::of_plan))
    out << "p: of this plan's own bound, its longest stream or chain of operations as they were measured\n";
  write_fastest(out, report, colour);
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

void write_runs(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, bool colour) {
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
  if (any) out << '\n' << table.text(colour);
}

void write_sections(std::ostream& out, const Report& report, bool colour) {
  for (const Section& section : sections()) {
    const SectionTable content = section.table(report);
    if (content.rows.empty()) continue;
    TextTable table(content.headings);
    for (const std::vector<std::string>& row : content.rows) {
      std::vector<std::string> cells;
      for (const std::string& cell : row) cells.push_back(printable(cell, cell_width));
      table.add(std::move(cells));
    }
    out << '\n' << inked(section.title, Ink::Bold, colour) << '\n' << table.text(colour);
  }
}

void write_reasons(std::ostream& out, const std::vector<SummaryRow>& rows, bool colour) {
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
    text += wrapped(printable(line), page_width, 4) + '\n';
  }
  if (!text.empty()) out << '\n' << inked("why", Ink::Bold, colour) << '\n' << text;
}

// Systems that could choose the same stand in one line.
void write_choices(std::ostream& out, const std::vector<SummaryRow>& rows, bool colour) {
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
  out << '\n' << inked("what each may choose", Ink::Bold, colour) << '\n';
  for (const auto& [choices, names] : lines)
    out << wrapped(printable(fmt::format("  {}: {}", names, choices)), page_width, 4) << '\n';
}

// "one, s4, double" is what sets a point of a front apart.
std::string memory_knobs(const Plan& plan) {
  std::string text = fmt::format("degree {} / {}", plan.forward_degree, backward_degrees(plan));
  if (plan.restore != Restore::Keep) text += fmt::format(", restore {}", name_in(restore_names, plan.restore));
  if (plan.buffers != Buffers::PerChunk) text += fmt::format(", buffers {}", name_in(buffers_names, plan.buffers));
  if (plan.micro_batches > 1) text += fmt::format(", {} micro-batches", plan.micro_batches);
  return text;
}

void write_fronts(std::ostream& out, const Report& report, const std::vector<SummaryRow>& rows, bool colour) {
  for (const SummaryRow& row : rows) {
    const std::vector<FrontPoint>& front = row.result->planner.front;
    if (front.size() < 2 || row.result->timeline.kind == ResultKind::Measured) continue;
    out << '\n'
        << inked(printable(fmt::format("time against memory, of the plans that {} looked at", row.result->system)),
                 Ink::Bold, colour)
        << '\n';
    for (const FrontPoint& point : front)
      out << fmt::format("  {:>9} ms {:>8.2f} GiB  {}\n", fixed(ms(point.time), ms_decimals(report)),
                         point.memory.value() / gib, memory_knobs(point.plan));
  }
}

void write_explanation(std::ostream& out, const Report& report, bool colour) {
  if (!report.explanation) return;
  out << '\n' << inked("explanation", Ink::Bold, colour) << '\n';
  for (const std::string& paragraph : explanation_text(*report.explanation))
    out << wrapped("  " + printable(paragraph), page_width, 2) << '\n';
}

void write_notes(std::ostream& out, const Report& report, bool colour) {
  if (report.notes.empty()) return;
  out << '\n' << inked("notes", Ink::Bold, colour) << '\n';
  for (const std::string& note : report.notes) out << wrapped("  - " + printable(note), page_width, 4) << '\n';
}

}  // namespace

void write_table(std::ostream& out, const Report& report, bool colour) {
  const std::vector<SummaryRow> rows = summarize(report);
  write_header(out, report, colour);
  write_results(out, report, rows, colour);
  write_runs(out, report, rows, colour);
  write_explanation(out, report, colour);
  write_sections(out, report, colour);
  write_choices(out, rows, colour);
  write_reasons(out, rows, colour);
  write_fronts(out, report, rows, colour);
  write_notes(out, report, colour);
}

}  // namespace dovetail::reports
