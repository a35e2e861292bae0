// SPDX-License-Identifier: Apache-2.0
#include "reports/page/html_table.hpp"

#include <fmt/format.h>

namespace dovetail::reports {

void write_row(std::ostream& out, std::string_view cell, const std::vector<std::string>& values) {
  out << "<tr>";
  for (const std::string& value : values) out << fmt::format("<{0}>{1}</{0}>", cell, value);
  out << "</tr>\n";
}

}  // namespace dovetail::reports
