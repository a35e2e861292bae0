// SPDX-License-Identifier: Apache-2.0
// A report as a table for a terminal.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

// Writes the question, the best result, the sections that say what was asked for and the first notes, at most 100
// columns wide. `verbose`: all columns, rows, sections and notes, at most 120 columns wide. Colour is ANSI codes;
// without it the text is plain.
void write_table(std::ostream& out, const Report& report, bool colour, bool verbose);

}  // namespace dovetail::reports
