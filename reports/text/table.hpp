// SPDX-License-Identifier: Apache-2.0
// A report as a table for a terminal.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

// Writes the question, the fastest result, one line per result in order of time, measured beside modelled where
// something ran, and the first notes, at most 100 columns wide. Systems that do the same share a line. `verbose`: all
// columns, a line for each system, all sections, why the planners chose what they chose, and all notes, at most 120
// columns wide. Colour is ANSI codes; without it the text is plain.
void write_table(std::ostream& out, const Report& report, bool colour, bool verbose);

}  // namespace dovetail::reports
