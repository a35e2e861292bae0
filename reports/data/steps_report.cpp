// SPDX-License-Identifier: Apache-2.0
#include "reports/data/steps_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string_view>

#include "models/base/names.hpp"
#include "reports/data/json_values.hpp"
#include "reports/text/csv.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t steps_width = 118;

std::string signed_percent(std::optional<double> share) {
  return share ? fmt::format("{:+.1f}", 100 * *share) : "-";
}

std::string percent_of(std::optional<double> share) {
  return share ? fixed(100 * *share, 1) + " %" : "-";
}

// "12 of 16"
std::string count_of(int some, int all) {
  return all == 0 ? "-" : fmt::format("{} of {}", some, all);
}

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
          {"error", number(step_error(step))},
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

template <class Headings>
std::vector<std::string> with_first(std::string first, const Headings& rest) {
  std::vector<std::string> all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

void write_summaries(std::ostream& out, StepsTables tables, bool colour) {
  TextTable rows(with_first("measured steps", steps_summary_headings));
  for (const StepsSummary& summary : summarise(tables))
    rows.add(with_first("  " + printable(summary.source), cells_of(summary)));
  out << rows.text(colour);
  for (const std::string& line : steps_legend(tables)) out << wrapped("  - " + line, steps_width, 4) << '\n';
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
  out << inked(wrapped(fmt::format("{}: {}", printable(table.id), printable(table.title)), steps_width, 2), Ink::Bold,
               colour)
      << '\n'
      << wrapped("  " + printable(table.source), steps_width, 2) << "\n\n";
  TextTable rows(with_first("", step_headings));
  for (const MeasuredStep& step : table.steps) {
    rows.add(with_first("  " + printable(step.name), cells_of(step)));
    if (!step.note.empty()) rows.add_remark(wrapped("      " + printable(step.note), steps_width, 6), Ink::Dim);
  }
  out << rows.text(colour);
  write_costs(out, table, colour);
  if (!table.notes.empty() || !table.not_stated.empty()) out << '\n';
  for (const std::string& note : table.notes) out << wrapped("  - " + printable(note), steps_width, 4) << '\n';
  for (const UnstatedStep& each : table.not_stated)
    out << wrapped(fmt::format("  - not stated: {}: {}", printable(each.name), printable(each.why)), steps_width, 4)
        << '\n';
  out << '\n';
}

// "200 draws", or "20 to 200 draws"; empty: there are no ranges.
std::string draws_of(StepsTables tables) {
  std::size_t least = 0, most = 0;
  for (const StepsTable& table : tables)
    for (const MeasuredStep& step : table.steps)
      if (step.range) {
        const std::size_t draws = step.range->draws.size();
        least = most == 0 ? draws : std::min(least, draws);
        most = std::max(most, draws);
      }
  if (most == 0) return "";
  return least == most ? fmt::format("{} draws", most) : fmt::format("{} to {} draws", least, most);
}

}  // namespace

std::vector<std::string> cells_of(const MeasuredStep& step) {
  const auto holds = range_holds(step);
  const auto peak = [](std::optional<Bytes> bytes) { return bytes ? fixed(bytes->value() / gib, 2) : "-"; };
  return {step_ms(step.measured),
          step_ms(step.predicted),
          signed_percent(step_error(step)),
          step.range ? fmt::format("{} - {}", step_ms(range_low(step)), step_ms(range_high(step))) : "-",
          !holds   ? "-"
          : *holds ? "yes"
                   : "no",
          peak(step.measured_peak),
          peak(step.predicted_peak),
          signed_percent(peak_error(step))};
}

std::vector<std::string> cells_of(const StepsSummary& s) {
  return {std::to_string(s.steps),
          std::to_string(s.not_stated),
          percent_of(s.mean_error),
          percent_of(s.median_error),
          s.signed_error ? signed_percent(s.signed_error) + " %" : "-",
          count_of(s.in_order, s.pairs),
          fixed(s.rank_correlation, 2),
          count_of(s.held, s.ranges),
          percent_of(s.peak_error)};
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
                         {"steps", s.steps},
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
      const auto end = [&](Seconds time) { return step.range ? csv_number(time.value()) : ""; };
      const auto holds = range_holds(step);
      const std::string_view held = !holds ? "" : *holds ? "yes" : "no";
      const std::string peak = step.measured_peak ? csv_number(step.measured_peak->value()) : "";
      out << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(table.id), csv_text(step.name),
                         csv_text(step.model), step.gpus, csv_number(step.tokens), csv_number(step.measured.value()),
                         csv_number(step.predicted.value()), csv_number(step_error(step)), end(range_low(step)),
                         end(range_high(step)), step.range ? step.range->draws.size() : 0, held, peak,
                         csv_number(step.predicted_peak.value()), csv_number(peak_error(step)));
    }
}

void write_steps_table(std::ostream& out, StepsTables tables, bool colour) {
  write_summaries(out, tables, colour);
  for (const StepsTable& table : tables) write_steps(out, table, colour);
}

}  // namespace dovetail::reports
