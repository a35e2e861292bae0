// SPDX-License-Identifier: Apache-2.0
// The answers of `tune` as tables: for a terminal and for a page.
#pragma once
#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "models/results/tuning.hpp"

namespace dovetail::reports {

struct TuningTable {
  std::string title;
  std::vector<std::string> headings;  // a second line is the unit: "step\nms"
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> remarks = {};                       // lines below it
  std::map<std::size_t, std::vector<std::string>> alike = {};  // by row: others of which it says the same
  bool best_first = false;                                     // its first row is the answer
};

// At least one plan must have been found. Tables without rows and remarks are left out. Not `verbose`: the first plans
// with the figures that decide, and systems that do the same in one row.
std::vector<TuningTable> tuning_tables(const Tuning& tuning, bool verbose);
std::vector<TuningTable> tuning_tables(const TuningCurve& curve);

// The question, as it was asked.
std::vector<std::string> question_lines(const Tuning& tuning);
std::vector<std::string> question_lines(const TuningCurve& curve);

// The question, the best plan's figures, the tables, how they were found and the first notes, at most 100 columns wide.
// `verbose`: all tables, columns and notes, at most 120 columns wide.
void write_tuning(std::ostream& out, const Tuning& tuning, bool colour, bool verbose);
void write_tuning(std::ostream& out, const TuningCurve& curve, bool colour);

// "no plan of any layout ...; of 3080 layouts 2664 ...": how far the best may be from the optimum, and why.
std::string proof_line(const Tuning& tuning);

}  // namespace dovetail::reports
