// SPDX-License-Identifier: Apache-2.0
// A report as a table for a terminal, at most 120 columns wide.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

// Writes the question, one line per result, measured beside modelled where something ran, why the planners chose
// what they chose, and the notes. Colour is ANSI codes; without it the text is plain.
void write_table(std::ostream& out, const Report& report, bool colour);

}  // namespace dovetail::reports
