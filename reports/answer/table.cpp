// SPDX-License-Identifier: Apache-2.0
#include "reports/answer/table.hpp"

#include <fmt/format.h>

#include <ostream>

#include "reports/answer/headline.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/format.hpp"
#include "reports/text/notes.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {
namespace {

// How a report is written.
struct Look {
  bool colour, verbose;
  std::size_t width() const { return verbose ? 118 : 98; }
};

Ink ink_of(Mark mark) {
  switch (mark) {
    case Mark::Best:
      return Ink::Bold;
    case Mark::Good:
      return Ink::Good;
    case Mark::Bad:
      return Ink::Bad;
    case Mark::Dim:
      return Ink::Dim;
    case Mark::None:
      break;
  }
  return Ink::Plain;
}

void write_question(std::ostream& out, const Report& report, Look look) {
  const std::vector<std::string> lines = question_lines(report);
  out << inked(wrapped(printable(report.kind) + ": " + lines.front(), look.width(), 2), Ink::Bold, look.colour) << '\n';
  for (std::size_t i = 1; i < lines.size(); ++i) out << wrapped("  " + lines[i], look.width(), 2) << '\n';
}

void write_headline(std::ostream& out, const Report& report, Look look) {
  const std::string line = headline(report);
  if (!line.empty() && report.kind != "run")
    out << '\n' << inked(wrapped(line, look.width(), 2), Ink::Bold, look.colour) << '\n';
}

std::string table_text(const SectionContent& content, Look look) {
  constexpr std::size_t cell_width = 60;
  TextTable table(content.headings);
  for (const SectionRow& row : content.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row.cells) cells.push_back(printable(cell, cell_width));
    table.add(std::move(cells), ink_of(row.mark));
    for (const SectionLine& remark : row.remarks)
      table.add_remark(wrapped("    " + printable(remark.text), look.width(), 4), ink_of(remark.mark));
  }
  return table.text(look.colour);
}

void write_section(std::ostream& out, const Section& section, const SectionContent& content, Look look) {
  out << '\n';
  if (section.titled == Titled::Always || (section.titled == Titled::InFull && look.verbose))
    out << inked(printable(content.title.empty() ? section.title : content.title), Ink::Bold, look.colour) << '\n';
  if (!content.rows.empty()) out << table_text(content, look);
  for (const SectionLine& line : content.lines)
    out << inked(wrapped("  " + printable(line.text), look.width(), 4), ink_of(line.mark), look.colour) << '\n';
  out << content.code;
}

}  // namespace

void write_table(std::ostream& out, const Report& report, bool colour, bool verbose) {
  const Look look{colour, verbose};
  write_question(out, report, look);
  write_headline(out, report, look);
  for (const Section& section : sections()) {
    const SectionContent content = section.content(report, verbose ? Detail::Full : Detail::Brief);
    if (!content.empty()) write_section(out, section, content, look);
  }
  constexpr std::size_t few = 3;
  write_notes(out, report.notes, colour, look.width(), verbose ? std::string::npos : few);
}

}  // namespace dovetail::reports
