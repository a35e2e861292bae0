// SPDX-License-Identifier: Apache-2.0
#include "reports/text/text_table.hpp"

#include <algorithm>
#include <sstream>

#include "models/base/errors.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string aligned(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string pad(widths[i] - display_width(cells[i]), ' ');
    line += i == 0 ? cells[i] + pad : "  " + pad + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string inked(std::string text, Ink ink, bool colour) {
  if (!colour || ink == Ink::Plain || text.empty()) return text;
  const char* code = ink == Ink::Bold ? "1" : ink == Ink::Good ? "1;32" : ink == Ink::Bad ? "31" : "2";
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

void TextTable::add(std::vector<std::string> cells, Ink ink) {
  check(cells.size() == headings_.size(), "as many cells as headings");
  lines_.push_back({std::move(cells), "", ink});
}

void TextTable::add_remark(std::string line, Ink ink) {
  lines_.push_back({{}, std::move(line), ink});
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    std::size_t width = 0;
    for (const std::string& line : split_lines(headings_[i])) width = std::max(width, display_width(line));
    for (const Line& line : lines_)
      if (!line.cells.empty()) width = std::max(width, display_width(line.cells[i]));
    widths.push_back(width);
  }
  return widths;
}

std::string TextTable::text(bool colour) const {
  const std::vector<std::size_t> columns = widths();
  std::size_t height = 0;
  for (const std::string& heading : headings_) height = std::max(height, split_lines(heading).size());
  std::string text;
  for (std::size_t row = 0; row < height; ++row) {
    std::vector<std::string> cells;
    for (const std::string& heading : headings_) {
      const auto lines = split_lines(heading);
      cells.push_back(row + lines.size() < height ? "" : lines[row + lines.size() - height]);
    }
    text += inked(aligned(cells, columns), Ink::Bold, colour) + '\n';
  }
  for (const Line& line : lines_)
    text += inked(line.cells.empty() ? line.remark : aligned(line.cells, columns), line.ink, colour) + '\n';
  return text;
}

}  // namespace dovetail::reports
