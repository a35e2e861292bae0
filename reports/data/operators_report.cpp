// SPDX-License-Identifier: Apache-2.0
#include "reports/data/operators_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "reports/data/json_values.hpp"
#include "reports/data/measured_cells.hpp"
#include "reports/text/csv_cells.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_shown = 10;

Json operator_json(const MeasuredOperator& one) {
  const bool ranged = one.range.has_value();
  const auto holds = range_holds(one);
  return {{"name", one.name},
          {"kernel", one.kernel},
          {"note", one.note},
          {"measured_s", number(one.measured)},
          {"predicted_s", number(one.predicted)},
          {"error", number(time_error(one))},
          {"low_s", ranged ? number(range_low(one)) : Json(nullptr)},
          {"high_s", ranged ? number(range_high(one)) : Json(nullptr)},
          {"draws", ranged ? one.range->draws.size() : 0},
          {"in_range", holds ? Json(*holds) : Json(nullptr)}};
}

Json summary_json(const OperatorsSummary& s) {
  return {{"source", s.source},
          {"kernel", s.kernel},
          {"independent", s.independent},
          {"operators", s.times},
          {"mean_error", number(s.mean_error)},
          {"median_error", number(s.median_error)},
          {"signed_error", number(s.signed_error)},
          {"ranges", s.ranges},
          {"in_range", s.held}};
}

Json table_json(const OperatorsTable& table) {
  Json operators = Json::array(), kernels = Json::array();
  for (const MeasuredOperator& one : table.operators) operators.push_back(operator_json(one));
  for (const OperatorsSummary& kernel : summarise_kernels(table)) kernels.push_back(summary_json(kernel));
  return {{"id", table.id},
          {"title", table.title},
          {"source", table.source},
          {"licence", table.licence},
          {"cluster", table.cluster},
          {"calibration", table.calibration},
          {"independent", table.independent},
          {"kernels", std::move(kernels)},
          {"operators", std::move(operators)},
          {"notes", table.notes}};
}

void write_operators(std::ostream& out, const OperatorsTable& table, bool colour) {
  write_source(out, table, colour);
  TextTable kernels(with_first("  priced by " + printable(table.calibration), operators_summary_headings));
  for (const OperatorsSummary& kernel : summarise_kernels(table))
    kernels.add(with_first("  " + kernel.kernel, cells_of(kernel)));
  TextTable rows(with_first("  " + heading_of_shown(table), operator_headings));
  for (const MeasuredOperator* one : shown_operators(table)) {
    rows.add(with_first("  " + printable(one->name), cells_of(*one)));
    if (!one->note.empty()) rows.add_remark(wrapped("      " + printable(one->note), measured_width, 6), Ink::Dim);
  }
  out << kernels.text(colour) << '\n' << rows.text(colour);
  if (!table.notes.empty()) out << '\n';
  write_sentences(out, table.notes);
  out << '\n';
}

}  // namespace

std::vector<std::string> cells_of(const OperatorsSummary& s) {
  return {std::to_string(s.times),           percent_of(s.mean_error),   percent_of(s.median_error),
          signed_percent_of(s.signed_error), count_of(s.held, s.ranges), yes_or_no(s.independent)};
}

std::vector<std::string> cells_of(const MeasuredOperator& one) {
  return {duration(one.measured), duration(one.predicted), signed_percent(time_error(one)),
          one.range ? fmt::format("{} - {}", duration(range_low(one)), duration(range_high(one))) : "-",
          yes_or_no(range_holds(one))};
}

std::vector<const MeasuredOperator*> shown_operators(const OperatorsTable& table) {
  std::vector<const MeasuredOperator*> shown;
  for (const MeasuredOperator& one : table.operators) shown.push_back(&one);
  if (shown.size() <= most_shown) return shown;
  const auto off = [](const MeasuredOperator* one) { return std::abs(std::log1p(time_error(*one))); };
  std::ranges::stable_sort(shown, std::ranges::greater(), off);
  shown.resize(most_shown);
  return shown;
}

std::string heading_of_shown(const OperatorsTable& table) {
  return table.operators.size() <= most_shown ? "operator" : "operators that are furthest off";
}

std::vector<std::string> operators_legend(OperatorsTables tables) {
  std::vector<std::string> lines{
      "errors are priced / measured - 1; each operator is priced by itself, as the pricing of a step prices its parts"};
  DrawsText draws;
  for (const OperatorsTable& table : tables)
    for (const MeasuredOperator& one : table.operators) draws.add(one);
  if (!draws.text().empty())
    lines.push_back(
        fmt::format("90 % range: where the operator lies in 90 % of {} of all costs, each within the range in which it "
                    "is known",
                    draws.text()));
  lines.emplace_back(
      "independent: neither the calibration nor the width of its ranges rests on the source; JSON and CSV have every "
      "operator");
  return lines;
}

Json operators_json(OperatorsTables tables) {
  Json list = Json::array();
  for (const OperatorsTable& table : tables) list.push_back(table_json(table));
  return list;
}

Json operators_summary_json(OperatorsTables tables) {
  Json summaries = Json::array();
  for (const OperatorsSummary& summary : summarise_operators(tables)) summaries.push_back(summary_json(summary));
  return summaries;
}

void write_operators_csv(std::ostream& out, OperatorsTables tables) {
  out << "source,independent,name,kernel,measured_s,predicted_s,error,low_s,high_s,draws,in_range\n";
  for (const OperatorsTable& table : tables)
    for (const MeasuredOperator& one : table.operators)
      out << fmt::format("{},{},{},{},{},{},{},{}\n", csv_text(table.id), yes_or_no(table.independent),
                         csv_text(one.name), one.kernel, csv_number(one.measured.value()),
                         csv_number(one.predicted.value()), csv_number(time_error(one)), range_csv(one));
}

void write_operators_table(std::ostream& out, OperatorsTables tables, bool colour) {
  TextTable rows(with_first("measured operators", operators_summary_headings));
  for (const OperatorsSummary& summary : summarise_operators(tables))
    rows.add(with_first("  " + printable(summary.source), cells_of(summary)));
  out << rows.text(colour);
  write_sentences(out, operators_legend(tables));
  out << '\n';
  for (const OperatorsTable& table : tables) write_operators(out, table, colour);
}

}  // namespace dovetail::reports
