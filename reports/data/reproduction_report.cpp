// SPDX-License-Identifier: Apache-2.0
#include "reports/data/reproduction_report.hpp"

#include <fmt/format.h>

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

Json target_json(const Target& target) {
  const bool bounded = target.kind != TargetKind::Shown && target.kind != TargetKind::Equal;
  return {{"kind", name_in(target_kind_names, target.kind)}, {"bound", bounded ? number(target.bound) : Json(nullptr)}};
}

Json row_json(const ReproducedValue& value) {
  return {{"name", value.name},
          {"unit", value.unit},
          {"published", value_json(value.published)},
          {"ours", value_json(value.ours)},
          {"error", number(error(value))},
          {"target", target_json(value.target)},
          {"fitted_constants", value.fitted.size()},
          {"fitted", value.fitted},
          {"given", value.given},
          {"verdict", name_in(verdict_names, verdict(value))},
          {"note", value.note}};
}

Json table_json(const ReproducedTable& table) {
  Json values = Json::array(), fitted = Json::array(), shared = Json::array(), unanswered = Json::array();
  for (const ReproducedValue& value : table.values) values.push_back(row_json(value));
  for (const FittedConstant& constant : table.fitted)
    fitted.push_back({{"name", constant.name}, {"value", constant.value}, {"file", constant.file}});
  for (const SharedConstant& c : table.shared)
    shared.push_back({{"name", c.name}, {"value", c.value}, {"from", c.from}, {"file", c.file}});
  for (const Unanswered& each : table.unanswered) unanswered.push_back({{"what", each.what}, {"why", each.why}});
  return {{"id", table.id},
          {"title", table.title},
          {"source", table.source},
          {"values", std::move(values)},
          {"fitted", std::move(fitted)},
          {"shared", std::move(shared)},
          {"unanswered", std::move(unanswered)},
          {"notes", table.notes},
          {"pass", count(table, Verdict::Pass)},
          {"miss", count(table, Verdict::Miss)},
          {"shown", count(table, Verdict::Shown)}};
}

Json summary_json(const Reproduction& reproduction) {
  Json summaries = Json::array();
  for (const PaperSummary& s : summarise(reproduction))
    summaries.push_back({{"paper", s.paper},
                         {"targets", s.targets},
                         {"predicted", s.predicted},
                         {"fitted", s.fitted},
                         {"given", s.given},
                         {"missed", s.missed},
                         {"shown", s.shown},
                         {"unanswered", s.unanswered},
                         {"mean_error", number(s.mean_error)},
                         {"median_error", number(s.median_error)}});
  return summaries;
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
             below ? "below" : cells.ours, cells.error, cells.target,
             value.given ? "given" : std::to_string(value.fitted.size()), std::string(name_in(verdict_names, v))},
            v == Verdict::Miss   ? Ink::Bad
            : v == Verdict::Pass ? Ink::Good
                                 : Ink::Plain);
  if (below)
    for (const auto& [label, text] : {std::pair{"published", cells.published}, {"ours     ", cells.ours}})
      table.add_remark(wrapped(fmt::format("      {}  {}", label, text), 100, 17));
  if (!value.note.empty()) table.add_remark(wrapped("      " + printable(value.note), 100, 6), Ink::Dim);
}

}  // namespace

ReproducedCells cells_of(const ReproducedValue& value) {
  ReproducedCells cells{cell(value.published), cell(value.ours), "-", ""};
  const bool absolute = value.target.kind == TargetKind::Absolute;
  if (const auto off = error(value))
    cells.error = absolute ? (*off < 0 ? "" : "+") + plain(*off) : fmt::format("{:+.1f} %", 100 * *off);
  const double bound = value.target.bound;
  switch (value.target.kind) {
    case TargetKind::Shown:
      cells.target = "-";
      break;
    case TargetKind::Equal:
      cells.target = "equal";
      break;
    case TargetKind::Relative:
      cells.target = fmt::format("within {:g} %", 100 * bound);
      break;
    case TargetKind::Absolute:
      cells.target = fmt::format("within {:g}", bound);
      break;
    case TargetKind::AtMost:
      cells.target = fmt::format("at most {:g}", bound);
      break;
    case TargetKind::AtLeast:
      cells.target = fmt::format("at least {:g}", bound);
      break;
  }
  return cells;
}

std::string describe_verdicts(const Reproduction& reproduction) {
  int pass = 0, miss = 0, shown = 0;
  for (const ReproducedTable& table : reproduction.tables) {
    pass += count(table, Verdict::Pass);
    miss += count(table, Verdict::Miss);
    shown += count(table, Verdict::Shown);
  }
  return fmt::format("{} of {} targets met, {} missed; {} values shown without a target", pass, pass + miss, miss,
                     shown);
}

Json to_json(const Reproduction& reproduction) {
  Json tables = Json::array();
  for (const ReproducedTable& table : reproduction.tables) tables.push_back(table_json(table));
  return {{"schema_version", reproduction_schema_version},
          {"kind", "reproduction"},
          {"provenance", provenance_json(reproduction.provenance)},
          {"summary", summary_json(reproduction)},
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
  out << "id,name,unit,published,ours,error,target,bound,fitted_constants,verdict\n";
  const auto text = [](const std::optional<TableValue>& value) {
    if (!value) return std::string();
    if (const auto* words = std::get_if<std::string>(&*value)) return csv_text(*words);
    return csv_number(std::get<double>(*value));
  };
  for (const ReproducedTable& table : reproduction.tables)
    for (const ReproducedValue& v : table.values) {
      const Json bound = target_json(v.target)["bound"];
      out << fmt::format("{},{},{},{},{},{},{},{},{},{}\n", csv_text(table.id), csv_text(v.name), csv_text(v.unit),
                         text(v.published), text(v.ours), csv_number(error(v)),
                         name_in(target_kind_names, v.target.kind), bound.is_null() ? "" : csv_number(v.target.bound),
                         v.fitted.size(), name_in(verdict_names, verdict(v)));
    }
}

std::vector<std::string> cells_of(const PaperSummary& s) {
  std::vector<std::string> cells;
  for (const int count : {s.targets, s.predicted, s.fitted, s.given, s.missed, s.shown, s.unanswered})
    cells.push_back(std::to_string(count));
  for (const std::optional<double> off : {s.mean_error, s.median_error})
    cells.push_back(off ? fixed(100 * *off, 1) + " %" : "-");
  return cells;
}

std::vector<std::string> describe_shared(const Reproduction& reproduction) {
  std::vector<std::string> lines;
  std::map<std::string, std::vector<std::string>> users;  // by what the constant is
  for (const ReproducedTable& table : reproduction.tables)
    for (const SharedConstant& c : table.shared)
      users[fmt::format("{}, {} in {}: fitted to {}", c.name, c.value, c.file, c.from)].push_back(table.id);
  for (const auto& [constant, tables] : users)
    lines.push_back(fmt::format("{}, used by {}", constant, fmt::join(tables, ", ")));
  return lines;
}

namespace {

void write_summary(std::ostream& out, const Reproduction& reproduction, bool colour) {
  std::vector<std::string> headings{"summary"};
  headings.insert(headings.end(), summary_headings.begin(), summary_headings.end());
  TextTable rows(headings);
  for (const PaperSummary& summary : summarise(reproduction)) {
    std::vector<std::string> cells = cells_of(summary);
    cells.insert(cells.begin(), "  " + printable(summary.paper));
    rows.add(cells);
  }
  out << rows.text(colour);
  out << wrapped(fmt::format("  - {}", summary_legend), 100, 4) << '\n';
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
  TextTable rows({"", "unit", "published", "ours", "error", "target", "fitted\nconstants", ""});
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
