// SPDX-License-Identifier: Apache-2.0
// Rows of tables on a page.
#pragma once
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::reports {

// One row of cells of this kind ("td", "th"). Values are HTML already.
void write_row(std::ostream& out, std::string_view cell, const std::vector<std::string>& values);

// A row whose first cell is HTML already, and whose other cells are text.
void write_cells(std::ostream& out, const std::string& first, const std::vector<std::string>& cells);

// Headings as a terminal has them, without their line ends.
void write_headings(std::ostream& out, const std::string& first, std::vector<std::string> headings);
template <class Headings>
void write_headings(std::ostream& out, const std::string& first, const Headings& headings) {
  write_headings(out, first, std::vector<std::string>(headings.begin(), headings.end()));
}

}  // namespace dovetail::reports
