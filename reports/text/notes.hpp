// SPDX-License-Identifier: Apache-2.0
// Notes below a table.
#pragma once
#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace dovetail::reports {

// Writes as many of the notes, from the first one on, as fit that many lines, and says how many are left out. At least
// one is written.
void write_notes(std::ostream& out, const std::vector<std::string>& notes, bool colour, std::size_t width,
                 std::size_t lines);

}  // namespace dovetail::reports
