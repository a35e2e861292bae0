// SPDX-License-Identifier: Apache-2.0
#include "reports/data/reproduction_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <ostream>

#include "models/base/names.hpp"
#include "reports/data/json_values.hpp"
#include "reports/data/operators_report.hpp"
#include "reports/data/steps_report.hpp"
#include "reports/text/csv_cells.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_cell = 24;  // of words; longer ones get a line of their own

Json value_json(const std::optional<TableValue>& value) {
  if (!value) return nullptr;
  if (const auto* words = std::get_if<std::string>(&*value)) return *words;
  return number(std::get<double>(*value));
}

Json measured_json(const ReproducedValue& value) {
  Json all = Json::array();
  for (const MeasuredValue& m : value.measured)
    all.push_back({{"value", value_json(m.value)},
                   {"what", m.what},
                   {"overruns", m.overruns},
                   {"device", m.by.device},
                   {"revision", m.by.revision},
                   {"file", m.by.file}});
  return all;
}

Json row_json(const ReproducedValue& value) {
  return {{"name", value.name},
          {"unit", value.unit},
          {"published", value_json(value.published)},
          {"ours", value_json(value.ours)},
          {"error", number(error(value))},
          {"measure", name_in(measure_names, value.measure)},
          {"allowed", number(allowed_error(value))},
          {"basis", name_in(basis_names, value.basis)},
          {"constants", value.constants},
          {"verdict", name_in(verdict_names, verdict(value))},
          {"note", value.note},
          {"settled", value.settled},
          {"measured", measured_json(value)}};
}

Json settled_json(const std::optional<SettledBy>& settled_by) {
  if (!settled_by) return nullptr;
  Json results = Json::array();
  for (const SettledBy::Result& result : settled_by->results)
    results.push_back({{"device", result.by.device},
                       {"revision", result.by.revision},
                       {"file", result.by.file},
                       {"rows", result.rows}});
  return {{"mission", settled_by->mission}, {"rows", settled_by->rows}, {"results", std::move(results)}};
}

Json table_json(const ReproducedTable& table) {
  Json values = Json::array(), fitted = Json::array(), shared = Json::array(), unanswered = Json::array();
  for (const ReproducedValue& value : table.values) values.push_back(row_json(value));
  for (const FittedConstant& constant : table.fitted)
    fitted.push_back({{"name", constant.name}, {"value", constant.value}, {"file", constant.file}});
  for (const SharedConstant& c : table.shared)
    shared.push_back(
        {{"name", c.name}, {"value", c.value}, {"from", c.from}, {"file", c.file}, {"instead", c.instead}});
  for (const Unanswered& each : table.unanswered) unanswered.push_back({{"what", each.what}, {"why", each.why}});
  return {{"id", table.id},
          {"title", table.title},
          {"source", table.source},
          {"apart", table.apart},
          {"values", std::move(values)},
          {"fitted", std::move(fitted)},
          {"shared", std::move(shared)},
          {"unanswered", std::move(unanswered)},
          {"settled_by", settled_json(table.settled_by)},
          {"notes", table.notes},
          {"pass", count(table, Verdict::Pass)},
          {"miss", count(table, Verdict::Miss)},
          {"shown", count(table, Verdict::Shown)}};
}

Json score_json(const Score& score) {
  return {{"met", score.met}, {"of", score.of}};
}

Json summary_json(const Reproduction& reproduction) {
  Json summaries = Json::array();
  for (const PaperSummary& s : summarise(reproduction)) {
    Json json{{"paper", s.paper}, {"apart", s.apart}};
    for (const auto& [name, basis] : basis_names)
      if (basis != Basis::Unpublished) json[std::string(name)] = score_json(s.of(basis));
    json.update({{"shown", s.shown},
                 {"unanswered", s.unanswered},
                 {"within_15_percent", score_json(s.near)},
                 {"mean_error", number(s.mean_error)},
                 {"median_error", number(s.median_error)}});
    summaries.push_back(std::move(json));
  }
  return summaries;
}

Json shared_json(const Reproduction& reproduction) {
  Json constants = Json::array();
  for (const SharedSummary& s : summarise_shared(reproduction))
    constants.push_back({{"name", s.constant.name},
                         {"value", s.constant.value},
                         {"from", s.constant.from},
                         {"file", s.constant.file},
                         {"instead", s.constant.instead},
                         {"tables", s.users},
                         {"with", score_json(s.with)},
                         {"without", score_json(s.without)},
                         {"mean_error", number(s.mean_error)},
                         {"mean_error_without", number(s.mean_error_without)}});
  return constants;
}

// Four significant digits; whole numbers as such.
std::string plain(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (value == std::round(value) && size < 1e6) return fixed(value, 0);
  return fixed(value, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string cell(const std::optional<TableValue>& value) {
  if (!value) return "-";
  if (const auto* words = std::get_if<std::string>(&*value)) return printable(*words);
  return plain(std::get<double>(*value));
}

bool is_long(const ReproducedValue& value) {
  return display_width(cell(value.published)) > longest_cell || display_width(cell(value.ours)) > longest_cell;
}

void add_row(TextTable& table, const ReproducedValue& value) {
  const ReproducedCells cells = cells_of(value);
  const Verdict v = verdict(value);
  const bool below = is_long(value);
  table.add({"  " + printable(value.name), printable(value.unit), below ? "below" : cells.published,
             below ? "below" : cells.ours, cells.error, cells.allowed, std::string(name_in(basis_names, value.basis)),
             std::string(name_in(verdict_names, v))},
            v == Verdict::Miss   ? Ink::Bad
            : v == Verdict::Pass ? Ink::Good
                                 : Ink::Plain);
  if (below)
    for (const auto& [label, text] : {std::pair{"published", cells.published}, {"ours     ", cells.ours}})
      table.add_remark(wrapped(fmt::format("      {}  {}", label, text), 100, 17));
  for (const std::string& line : describe_measured(value))
    table.add_remark(wrapped("      " + printable(line), 100, 8));
  if (!value.note.empty()) table.add_remark(wrapped("      " + printable(value.note), 100, 6), Ink::Dim);
}

}  // namespace

ReproducedCells cells_of(const ReproducedValue& value) {
  ReproducedCells cells{cell(value.published), cell(value.ours), "-", "-"};
  if (const auto off = error(value)) cells.error = fmt::format("{:+.1f} %", 100 * *off);
  const bool words = value.published && std::holds_alternative<std::string>(*value.published);
  if (value.measure == Measure::AtMost)
    cells.allowed = "at most";
  else if (value.measure == Measure::AtLeast)
    cells.allowed = "at least";
  else if (const auto allowed = allowed_error(value))
    cells.allowed = words || *allowed == 0 ? "equal" : "+- " + plain(*allowed);
  return cells;
}

std::vector<std::string> describe_measured(const ReproducedValue& value) {
  std::vector<std::string> lines;
  for (const MeasuredValue& m : value.measured) {
    const std::string late = m.overruns == 0 ? "" : fmt::format(", {} exchanges outlasted their times", m.overruns);
    lines.push_back(fmt::format("measured on {}, links held: {}{} ({}{})", m.by.device, cell(m.value),
                                value.unit.empty() ? "" : " " + value.unit, m.what, late));
  }
  return lines;
}

std::vector<std::string> describe_settled(const ReproducedTable& table) {
  if (!table.settled_by) return {};
  const SettledBy& s = *table.settled_by;
  const std::string can =
      fmt::format("one GPU can settle {} of these rows (mission {} of data/validation/gpu): ", s.rows, s.mission);
  std::vector<std::string> lines;
  if (s.results.empty()) lines.push_back(can + "not yet measured");
  for (const SettledBy::Result& result : s.results)
    lines.push_back(fmt::format("{}{} measured on {}, links held, revision {}", can, result.rows, result.by.device,
                                result.by.revision));
  lines.emplace_back(settled_legend);
  return lines;
}

std::string describe_verdicts(const Reproduction& reproduction) {
  Score predicted, shares;
  for (const PaperSummary& s : summarise(reproduction)) {
    if (s.apart || s.paper == "all") continue;
    for (const auto& [total, basis] : {std::pair{&predicted, Basis::Predicted}, {&shares, Basis::Shares}}) {
      total->met += s.of(basis).met;
      total->of += s.of(basis).of;
    }
  }
  return fmt::format("{} of {} predictions met, and {} of {} values that share a constant fitted to another table",
                     predicted.met, predicted.of, shares.met, shares.of);
}

Json to_json(const Reproduction& reproduction) {
  Json tables = Json::array();
  for (const ReproducedTable& table : reproduction.tables) tables.push_back(table_json(table));
  return {{"schema_version", reproduction_schema_version},
          {"kind", "reproduction"},
          {"provenance", provenance_json(reproduction.provenance)},
          {"summary", summary_json(reproduction)},
          {"shared", shared_json(reproduction)},
          {"tables", std::move(tables)},
          {"steps_summary", steps_summary_json(reproduction.steps)},
          {"steps", steps_json(reproduction.steps)},
          {"operators_summary", operators_summary_json(reproduction.operators)},
          {"operators", operators_json(reproduction.operators)}};
}

void write_json(std::ostream& out, const Reproduction& reproduction) {
  out << to_json(reproduction).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_csv(std::ostream& out, const Reproduction& reproduction) {
  if (!reproduction.operators.empty()) return write_operators_csv(out, reproduction.operators);
  if (reproduction.tables.empty()) return write_steps_csv(out, reproduction.steps);
  out << "id,name,unit,published,ours,error,allowed,measure,basis,verdict,measured\n";
  const auto text = [](const std::optional<TableValue>& value) {
    if (!value) return std::string();
    if (const auto* words = std::get_if<std::string>(&*value)) return csv_text(*words);
    return csv_number(std::get<double>(*value));
  };
  for (const ReproducedTable& table : reproduction.tables)
    for (const ReproducedValue& v : table.values)
      out << fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(table.id), csv_text(v.name), csv_text(v.unit),
                         text(v.published), text(v.ours), csv_number(error(v)), csv_number(allowed_error(v)),
                         name_in(measure_names, v.measure), name_in(basis_names, v.basis),
                         name_in(verdict_names, verdict(v)),
                         csv_text(fmt::to_string(fmt::join(describe_measured(v), "; "))));
}

namespace {

std::string score_cell(const Score& score) {
  return score.of == 0 ? "-" : fmt::format("{} of {}", score.met, score.of);
}

std::string error_cell(const std::optional<double>& off) {
  return off ? fixed(100 * *off, 1) + " %" : "-";
}

}  // namespace

std::vector<std::string> cells_of(const PaperSummary& s) {
  std::vector<std::string> cells{s.apart ? s.paper + " (apart)" : s.paper};
  for (const Basis basis :
       {Basis::Predicted, Basis::Shares, Basis::Fitted, Basis::Given, Basis::Identity, Basis::Repeated})
    cells.push_back(score_cell(s.of(basis)));
  cells.push_back(score_cell(s.near));
  for (const std::optional<double>& off : {s.mean_error, s.median_error}) cells.push_back(error_cell(off));
  return cells;
}

std::vector<std::string> cells_of(const SharedSummary& s) {
  return {s.constant.name,          s.constant.value,      score_cell(s.with),
          error_cell(s.mean_error), score_cell(s.without), error_cell(s.mean_error_without)};
}

std::vector<std::string> describe_shared(const Reproduction& reproduction) {
  std::vector<std::string> lines;
  for (const SharedSummary& s : summarise_shared(reproduction))
    lines.push_back(fmt::format("{}: fitted to {} ({}), used by {}; without it: {}", s.constant.name, s.constant.from,
                                s.constant.file, fmt::join(s.users, ", "), s.constant.instead));
  return lines;
}

namespace {

template <class Summary>
void add_rows(TextTable& rows, const std::vector<Summary>& summaries) {
  for (const Summary& summary : summaries) {
    std::vector<std::string> cells;
    for (const std::string& each : cells_of(summary)) cells.push_back(printable(each));
    cells.front().insert(0, "  ");
    rows.add(cells);
  }
}

void write_summary(std::ostream& out, const Reproduction& reproduction, bool colour) {
  TextTable papers({summary_headings.begin(), summary_headings.end()});
  add_rows(papers, summarise(reproduction));
  out << papers.text(colour);
  for (const char* line : summary_legend) out << wrapped(fmt::format("  - {}", line), 100, 4) << '\n';
  if (const std::vector<SharedSummary> shared = summarise_shared(reproduction); !shared.empty()) {
    TextTable constants({shared_headings.begin(), shared_headings.end()});
    add_rows(constants, shared);
    out << '\n' << constants.text(colour);
  }
  for (const std::string& line : describe_shared(reproduction))
    out << wrapped("  - " + printable(line), 100, 4) << '\n';
  for (const ReproducedTable& table : reproduction.tables)
    for (const Unanswered& each : table.unanswered)
      out << wrapped(fmt::format("  - cannot be answered: {}: {}", printable(each.what), printable(each.why)), 100, 4)
          << '\n';
  out << '\n';
}

void write_values(std::ostream& out, const ReproducedTable& table, bool colour) {
  out << inked(wrapped(fmt::format("{}: {}", table.id, printable(table.title)), 100, 2), Ink::Bold, colour) << '\n';
  out << wrapped("  " + printable(table.source), 100, 2) << "\n\n";
  TextTable rows({"", "unit", "published", "ours", "error", "allowed", "rests on", ""});
  for (const ReproducedValue& value : table.values) add_row(rows, value);
  out << rows.text(colour);
  for (const FittedConstant& constant : table.fitted)
    out << wrapped(fmt::format("  fitted to this table: {}, {} in {}", printable(constant.name),
                               printable(constant.value), printable(constant.file)),
                   100, 4)
        << '\n';
  for (const SharedConstant& c : table.shared)
    out << wrapped(fmt::format("  fitted to {}: {}, {} in {}", printable(c.from), printable(c.name), printable(c.value),
                               printable(c.file)),
                   100, 4)
        << '\n';
  for (const std::string& line : describe_settled(table)) out << wrapped("  - " + printable(line), 100, 4) << '\n';
  for (const std::string& note : table.notes) out << wrapped("  - " + printable(note), 100, 4) << '\n';
  out << '\n';
}

}  // namespace

void write_table(std::ostream& out, const Reproduction& reproduction, bool colour) {
  if (!reproduction.tables.empty()) write_summary(out, reproduction, colour);
  for (const ReproducedTable& table : reproduction.tables) write_values(out, table, colour);
  if (!reproduction.steps.empty()) write_steps_table(out, reproduction.steps, colour);
  if (!reproduction.operators.empty()) write_operators_table(out, reproduction.operators, colour);
  if (!reproduction.tables.empty()) out << describe_verdicts(reproduction) << '\n';
}

}  // namespace dovetail::reports
