// SPDX-License-Identifier: Apache-2.0
// Aligned columns for a terminal.
#pragma once
#include <string>
#include <vector>

namespace dovetail::reports {

// ANSI colours, or nothing when they are off.
enum class Ink { Plain, Bold, Good, Bad, Dim };
std::string inked(std::string text, Ink ink, bool colour);

// The first column is aligned left, the others right.
class TextTable {
 public:
  // A heading may have several lines ("step\nms"); all stand at the bottom.
  explicit TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {}

  void add(std::vector<std::string> cells, Ink ink = Ink::Plain);
  void add_remark(std::string line, Ink ink = Ink::Plain);  // a line of its own below the last row
  std::string text(bool colour) const;                      // ends in a newline

 private:
  struct Line {
    std::vector<std::string> cells;  // empty: a remark
    std::string remark;
    Ink ink;
  };
  std::vector<std::size_t> widths() const;

  std::vector<std::string> headings_;
  std::vector<Line> lines_;
};

}  // namespace dovetail::reports
