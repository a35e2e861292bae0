// SPDX-License-Identifier: Apache-2.0
// Measured operators beside prices of them, as sections of the page of a reproduction.
#include <fmt/format.h>

#include <ostream>

#include "reports/data/operators_report.hpp"
#include "reports/page/html_table.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

void write_summaries(std::ostream& out, const std::string& first, const std::vector<OperatorsSummary>& summaries,
                     std::string OperatorsSummary::*name) {
  write_headings(out, first, operators_summary_headings);
  for (const OperatorsSummary& summary : summaries) write_cells(out, escaped(summary.*name), cells_of(summary));
  out << "</table></div>\n";
}

void write_operators_section(std::ostream& out, const OperatorsTable& table) {
  out << fmt::format("<section id=\"{0}\"><h2>{0}: {1}</h2><p class=\"hint\">{2}</p>\n<div class=\"scroll\"><table>\n",
                     escaped(table.id), escaped(table.title), escaped(table.source));
  write_summaries(out, "Kernel", summarise_kernels(table), &OperatorsSummary::kernel);
  out << "<div class=\"scroll\"><table>\n";
  write_headings(out, escaped(heading_of_shown(table)), operator_headings);
  for (const MeasuredOperator* one : shown_operators(table)) {
    const std::string note = one->note.empty() ? "" : fmt::format("<br><small>{}</small>", escaped(one->note));
    write_cells(out, escaped(one->name) + note, cells_of(*one));
  }
  out << "</table></div>\n<ul>\n";
  for (const std::string& note : table.notes) out << "<li>" << escaped(note) << "</li>\n";
  out << "</ul></section>\n";
}

}  // namespace

void write_operators_html(std::ostream& out, OperatorsTables tables) {
  out << "<section><h2>Measured operators</h2><div class=\"scroll\"><table>\n";
  write_summaries(out, "Source", summarise_operators(tables), &OperatorsSummary::source);
  out << "<ul>\n";
  for (const std::string& line : operators_legend(tables)) out << "<li>" << escaped(line) << "</li>\n";
  out << "</ul></section>\n";
  for (const OperatorsTable& table : tables) write_operators_section(out, table);
}

}  // namespace dovetail::reports
