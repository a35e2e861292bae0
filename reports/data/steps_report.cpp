// SPDX-License-Identifier: Apache-2.0
#include "reports/data/steps_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string_view>

#include "models/base/names.hpp"
#include "reports/data/json_values.hpp"
#include "reports/data/measured_cells.hpp"
#include "reports/text/csv_cells.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string step_ms(Seconds time) {
  const double ms = time.value() * 1e3;
  return fixed(ms, ms >= 100 ? 0 : 1);
}

Json step_json(const MeasuredStep& step) {
  const bool ranged = step.range.has_value();
  const auto holds = range_holds(step);
  return {{"name", step.name},
          {"note", step.note},
          {"source_name", step.source_name},
          {"model", step.model},
          {"gpus", step.gpus},
          {"tokens", step.tokens},
          {"measured_s", number(step.measured)},
          {"predicted_s", number(step.predicted)},
          {"error", number(time_error(step))},
          {"low_s", ranged ? number(range_low(step)) : Json(nullptr)},
          {"high_s", ranged ? number(range_high(step)) : Json(nullptr)},
          {"draws", ranged ? step.range->draws.size() : 0},
          {"in_range", holds ? Json(*holds) : Json(nullptr)},
          {"measured_peak_bytes", number(step.measured_peak)},
          {"predicted_peak_bytes", number(step.predicted_peak)},
          {"peak_error", number(peak_error(step))}};
}

Json cost_json(const InfluentialCost& cost) {
  return {{"cost", cost.cost},        {"origin", name_in(origin_names, cost.origin)},
          {"within", cost.within},    {"steps", cost.steps},
          {"low", number(cost.fast)}, {"high", number(cost.slow)}};
}

Json steps_table_json(const StepsTable& table) {
  Json steps = Json::array(), costs = Json::array(), unstated = Json::array();
  for (const MeasuredStep& step : table.steps) steps.push_back(step_json(step));
  for (const InfluentialCost& cost : influential_costs(table)) costs.push_back(cost_json(cost));
  for (const UnstatedStep& each : table.not_stated) unstated.push_back({{"name", each.name}, {"why", each.why}});
  return {{"id", table.id},
          {"title", table.title},
          {"source", table.source},
          {"licence", table.licence},
          {"steps", std::move(steps)},
          {"costs", std::move(costs)},
          {"not_stated", std::move(unstated)},
          {"notes", table.notes}};
}

void write_summaries(std::ostream& out, StepsTables tables, bool colour) {
  TextTable rows(with_first("measured steps", steps_summary_headings));
  for (const StepsSummary& summary : summarise(tables))
    rows.add(with_first("  " + printable(summary.source), cells_of(summary)));
  out << rows.text(colour);
  write_sentences(out, steps_legend(tables));
  out << '\n';
}

void write_costs(std::ostream& out, const StepsTable& table, bool colour) {
  const std::vector<InfluentialCost> costs = influential_costs(table);
  if (costs.empty()) return;
  TextTable rows(with_first("  costs that matter most", cost_headings));
  for (const InfluentialCost& cost : costs) rows.add(with_first("  " + printable(cost.cost), cells_of(cost, table)));
  out << '\n' << rows.text(colour);
}

void write_steps(std::ostream& out, const StepsTable& table, bool colour) {
  write_source(out, table, colour);
  TextTable rows(with_first("", step_headings));
  for (const MeasuredStep& step : table.steps) {
    rows.add(with_first("  " + printable(step.name), cells_of(step)));
    if (!step.note.empty()) rows.add_remark(wrapped("      " + printable(step.note), measured_width, 6), Ink::Dim);
  }
  out << rows.text(colour);
  write_costs(out, table, colour);
  if (!table.notes.empty() || !table.not_stated.empty()) out << '\n';
  write_sentences(out, table.notes);
  for (const UnstatedStep& each : table.not_stated)
    out << wrapped(fmt::format("  - not stated: {}: {}", printable(each.name), printable(each.why)), measured_width, 4)
        << '\n';
  out << '\n';
}

std::string draws_of(StepsTables tables) {
  DrawsText draws;
  for (const StepsTable& table : tables)
    for (const MeasuredStep& step : table.steps) draws.add(step);
  return draws.text();
}

}  // namespace

std::vector<std::string> cells_of(const MeasuredStep& step) {
  const auto peak = [](std::optional<Bytes> bytes) { return bytes ? fixed(bytes->value() / gib, 2) : "-"; };
  return {step_ms(step.measured),
          step_ms(step.predicted),
          signed_percent(time_error(step)),
          step.range ? fmt::format("{} - {}", step_ms(range_low(step)), step_ms(range_high(step))) : "-",
          yes_or_no(range_holds(step)),
          peak(step.measured_peak),
          peak(step.predicted_peak),
          signed_percent(peak_error(step))};
}

std::vector<std::string> cells_of(const StepsSummary& s) {
  return {std::to_string(s.times),      std::to_string(s.not_stated),      percent_of(s.mean_error),
          percent_of(s.median_error),   signed_percent_of(s.signed_error), count_of(s.in_order, s.pairs),
          fixed(s.rank_correlation, 2), count_of(s.held, s.ranges),        percent_of(s.peak_error)};
}

std::vector<std::string> cells_of(const InfluentialCost& cost, const StepsTable& table) {
  return {std::string(name_in(origin_names, cost.origin)), fmt::format("{:.3g}", cost.within),
          count_of(cost.steps, static_cast<int>(table.steps.size())), signed_percent(cost.fast - 1),
          signed_percent(cost.slow - 1)};
}

std::vector<std::string> steps_legend(StepsTables tables) {
  std::vector<std::string> lines{
      "errors are predicted / measured - 1; each step is predicted as dovetail simulate predicts the question that "
      "states it",
      "pairs are two steps of one source that train the same model on as many tokens; one is in the right order if the "
      "step that was slower is predicted to be slower"};
  if (const std::string draws = draws_of(tables); !draws.empty())
    lines.push_back(fmt::format(
        "90 % range: where the step lies in 90 % of {} of all costs, each within the range in which it is known, and "
        "of what is not counted of a framework. Costs that matter most are the three of each step whose ranges change "
        "it "
        "most; their changes are means over these steps",
        draws));
  return lines;
}

Json steps_json(StepsTables tables) {
  Json list = Json::array();
  for (const StepsTable& table : tables) list.push_back(steps_table_json(table));
  return list;
}

Json steps_summary_json(StepsTables tables) {
  Json summaries = Json::array();
  for (const StepsSummary& s : summarise(tables))
    summaries.push_back({{"source", s.source},
                         {"steps", s.times},
                         {"not_stated", s.not_stated},
                         {"mean_error", number(s.mean_error)},
                         {"median_error", number(s.median_error)},
                         {"signed_error", number(s.signed_error)},
                         {"pairs", s.pairs},
                         {"in_order", s.in_order},
                         {"rank_correlation", number(s.rank_correlation)},
                         {"ranges", s.ranges},
                         {"in_range", s.held},
                         {"peaks", s.peaks},
                         {"peak_error", number(s.peak_error)}});
  return summaries;
}

void write_steps_csv(std::ostream& out, StepsTables tables) {
  out << "source,name,model,gpus,tokens,measured_s,predicted_s,error,low_s,high_s,draws,in_range,measured_peak_bytes,"
         "predicted_peak_bytes,peak_error\n";
  for (const StepsTable& table : tables)
    for (const MeasuredStep& step : table.steps) {
      const std::string peak = step.measured_peak ? csv_number(step.measured_peak->value()) : "";
      out << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(table.id), csv_text(step.name),
                         csv_text(step.model), step.gpus, csv_number(step.tokens), csv_number(step.measured.value()),
                         csv_number(step.predicted.value()), csv_number(time_error(step)), range_csv(step), peak,
                         csv_number(step.predicted_peak.value()), csv_number(peak_error(step)));
    }
}

void write_steps_table(std::ostream& out, StepsTables tables, bool colour) {
  write_summaries(out, tables, colour);
  for (const StepsTable& table : tables) write_steps(out, table, colour);
}

}  // namespace dovetail::reports
