// SPDX-License-Identifier: Apache-2.0
#include "reports/page/html_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reports/text/format.hpp"

namespace dovetail::reports {

void write_row(std::ostream& out, std::string_view cell, const std::vector<std::string>& values) {
  out << "<tr>";
  for (const std::string& value : values) out << fmt::format("<{0}>{1}</{0}>", cell, value);
  out << "</tr>\n";
}

void write_cells(std::ostream& out, const std::string& first, const std::vector<std::string>& cells) {
  std::vector<std::string> values{first};
  for (const std::string& cell : cells) values.push_back(escaped(cell));
  write_row(out, "td", values);
}

void write_headings(std::ostream& out, const std::string& first, std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    std::ranges::replace(heading, '\n', ' ');
    heading = escaped(heading);
  }
  headings.insert(headings.begin(), first);
  write_row(out, "th", headings);
}

}  // namespace dovetail::reports
