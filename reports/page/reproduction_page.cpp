// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <ostream>

#include "models/base/names.hpp"
#include "reports/data/operators_report.hpp"
#include "reports/data/reproduction_report.hpp"
#include "reports/data/steps_report.hpp"
#include "reports/page/html_table.hpp"
#include "reports/page/page_text.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

void write_notes(std::ostream& out, const ReproducedTable& table) {
  if (table.fitted.empty() && table.shared.empty() && table.notes.empty() && !table.settled_by) return;
  out << "<ul>\n";
  for (const FittedConstant& constant : table.fitted)
    out << fmt::format("<li>fitted to this table: {}, {} in {}</li>\n", escaped(constant.name), escaped(constant.value),
                       escaped(constant.file));
  for (const SharedConstant& c : table.shared)
    out << fmt::format("<li>fitted to {}: {}, {} in {}</li>\n", escaped(c.from), escaped(c.name), escaped(c.value),
                       escaped(c.file));
  for (const std::string& line : describe_settled(table)) out << "<li>" << escaped(line) << "</li>\n";
  for (const std::string& note : table.notes) out << "<li>" << escaped(note) << "</li>\n";
  out << "</ul>\n";
}

std::string notes_of(const ReproducedValue& value) {
  std::string text;
  for (const std::string& line : describe_measured(value)) text += escaped(line) + "<br>";
  return text + escaped(value.note);
}

void write_section(std::ostream& out, const ReproducedTable& table) {
  out << fmt::format("<section id=\"{0}\"><h2>{0}: {1}</h2><p class=\"hint\">{2}</p>\n<div class=\"scroll\"><table>\n",
                     escaped(table.id), escaped(table.title), escaped(table.source));
  write_row(out, "th",
            {"Value", "Unit", "Published", "Ours", "Error", "Allowed", "Rests on", "Verdict", "Measured and notes"});
  for (const ReproducedValue& value : table.values) {
    const ReproducedCells cells = cells_of(value);
    const Verdict v = verdict(value);
    const std::string_view word = name_in(verdict_names, v);
    write_row(out, "td",
              {escaped(value.name), escaped(value.unit), escaped(cells.published), escaped(cells.ours), cells.error,
               cells.allowed, std::string(name_in(basis_names, value.basis)),
               v == Verdict::Miss ? fmt::format("<strong>{}</strong>", word) : std::string(word), notes_of(value)});
  }
  out << "</table></div>\n";
  write_notes(out, table);
  out << "</section>\n";
}

template <class Headings, class Summary>
void write_rows(std::ostream& out, const Headings& headings, const std::vector<Summary>& summaries) {
  out << "<div class=\"scroll\"><table>\n";
  write_row(out, "th", {headings.begin(), headings.end()});
  for (const Summary& summary : summaries) {
    std::vector<std::string> cells;
    for (const std::string& each : cells_of(summary)) cells.push_back(escaped(each));
    write_row(out, "td", cells);
  }
  out << "</table></div>\n";
}

void write_summary(std::ostream& out, const Reproduction& reproduction) {
  out << "<section><h2>Summary</h2>\n";
  write_rows(out, summary_headings, summarise(reproduction));
  out << "<ul>\n";
  for (const char* line : summary_legend) out << "<li>" << escaped(line) << "</li>\n";
  out << "</ul>\n";
  if (const std::vector<SharedSummary> shared = summarise_shared(reproduction); !shared.empty())
    write_rows(out, shared_headings, shared);
  out << "<ul>\n";
  for (const std::string& line : describe_shared(reproduction)) out << "<li>" << escaped(line) << "</li>\n";
  for (const ReproducedTable& table : reproduction.tables)
    for (const Unanswered& each : table.unanswered)
      out << fmt::format("<li>cannot be answered: {}: {}</li>\n", escaped(each.what), escaped(each.why));
  out << "</ul></section>\n";
}

void write_overview(std::ostream& out, const Reproduction& reproduction) {
  out << "<section><h2>Overview</h2><div class=\"scroll\"><table>\n";
  write_row(out, "th", {"Table", "What", "Targets met", "Missed", "Shown"});
  for (const ReproducedTable& table : reproduction.tables)
    write_row(out, "td",
              {fmt::format("<a href=\"#{0}\">{0}</a>", escaped(table.id)), escaped(table.title),
               std::to_string(count(table, Verdict::Pass)), std::to_string(count(table, Verdict::Miss)),
               std::to_string(count(table, Verdict::Shown))});
  out << "</table></div><p class=\"hint\">" << describe_verdicts(reproduction) << "</p></section>\n";
}

std::string_view title_of(const Reproduction& reproduction) {
  if (reproduction.steps.empty() && reproduction.operators.empty()) return "Published tables beside ours";
  if (!reproduction.tables.empty()) return "Published tables and measurements";
  if (reproduction.operators.empty()) return "Measured steps beside predictions";
  return reproduction.steps.empty() ? "Measured operators beside prices" : "Measured steps and operators";
}

}  // namespace

void write_html(std::ostream& out, const Reproduction& reproduction) {
  out << fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><header><p class=\"brand\">Dovetail <span>reproduction</span></p><h1>{0}</h1></header><main>\n",
      title_of(reproduction), style_text);
  if (!reproduction.tables.empty()) {
    write_summary(out, reproduction);
    write_overview(out, reproduction);
  }
  for (const ReproducedTable& table : reproduction.tables) write_section(out, table);
  if (!reproduction.steps.empty()) write_steps_html(out, reproduction.steps);
  if (!reproduction.operators.empty()) write_operators_html(out, reproduction.operators);
  out << fmt::format("<section><h2>How it was made</h2><p class=\"hint\">{} {}, {}</p></section>\n",
                     escaped(reproduction.provenance.version), escaped(reproduction.provenance.git_revision),
                     escaped(reproduction.provenance.created));
  out << "</main></body></html>\n";
}

}  // namespace dovetail::reports
