// SPDX-License-Identifier: Apache-2.0
// Measured steps beside predictions of them, as sections of the page of a reproduction.
#include <fmt/format.h>

#include <ostream>

#include "reports/data/steps_report.hpp"
#include "reports/page/html_table.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

void write_steps_summary(std::ostream& out, StepsTables tables) {
  out << "<section><h2>Measured steps</h2><div class=\"scroll\"><table>\n";
  write_headings(out, "Source", steps_summary_headings);
  for (const StepsSummary& summary : summarise(tables)) write_cells(out, escaped(summary.source), cells_of(summary));
  out << "</table></div><ul>\n";
  for (const std::string& line : steps_legend(tables)) out << "<li>" << escaped(line) << "</li>\n";
  out << "</ul></section>\n";
}

void write_costs_of(std::ostream& out, const StepsTable& table) {
  const std::vector<InfluentialCost> costs = influential_costs(table);
  if (costs.empty()) return;
  out << "<h3>Costs that matter most</h3><div class=\"scroll\"><table>\n";
  write_headings(out, "Cost", cost_headings);
  for (const InfluentialCost& cost : costs) write_cells(out, escaped(cost.cost), cells_of(cost, table));
  out << "</table></div>\n";
}

void write_steps_section(std::ostream& out, const StepsTable& table) {
  out << fmt::format("<section id=\"{0}\"><h2>{0}: {1}</h2><p class=\"hint\">{2}</p>\n<div class=\"scroll\"><table>\n",
                     escaped(table.id), escaped(table.title), escaped(table.source));
  write_headings(out, "Step", step_headings);
  for (const MeasuredStep& step : table.steps) {
    const std::string note = step.note.empty() ? "" : fmt::format("<br><small>{}</small>", escaped(step.note));
    write_cells(out, escaped(step.name) + note, cells_of(step));
  }
  out << "</table></div>\n";
  write_costs_of(out, table);
  out << "<ul>\n";
  for (const std::string& note : table.notes) out << "<li>" << escaped(note) << "</li>\n";
  for (const UnstatedStep& each : table.not_stated)
    out << fmt::format("<li>not stated: {}: {}</li>\n", escaped(each.name), escaped(each.why));
  out << "</ul></section>\n";
}

}  // namespace

void write_steps_html(std::ostream& out, StepsTables tables) {
  write_steps_summary(out, tables);
  for (const StepsTable& table : tables) write_steps_section(out, table);
}

}  // namespace dovetail::reports
