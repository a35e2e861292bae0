// SPDX-License-Identifier: Apache-2.0
#include "reports/text/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {

void write_notes(std::ostream& out, const std::vector<std::string>& notes, bool colour, std::size_t width,
                 std::size_t lines) {
  if (notes.empty()) return;
  std::size_t written = 0, taken = 0;
  std::string text;
  for (const std::string& note : notes) {
    const std::string next = wrapped("  - " + printable(note), width, 4) + '\n';
    taken += static_cast<std::size_t>(std::ranges::count(next, '\n'));
    if (written > 0 && taken > lines) break;
    text += next;
    ++written;
  }
  out << '\n' << inked("notes", Ink::Bold, colour) << '\n' << text;
  if (written < notes.size()) out << fmt::format("  - {} more with -v\n", notes.size() - written);
}

}  // namespace dovetail::reports
