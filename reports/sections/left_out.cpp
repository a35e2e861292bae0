// SPDX-License-Identifier: Apache-2.0
#include "reports/sections/left_out.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/format.hpp"

namespace dovetail::reports {

std::vector<std::string> left_out_lines(const std::vector<RefusedSystem>& refused, bool brief) {
  constexpr std::size_t width = 24;  // of a name
  std::vector<std::string> lines;
  for (const RefusedSystem& each : refused)
    lines.push_back(fmt::format("{} left out: {}", printable(each.system, width), each.reason));
  if (!brief || lines.size() < 2) return lines;
  std::vector<std::string> names;
  for (const RefusedSystem& each : refused) names.push_back(printable(each.system, width));
  return {fmt::format("left out, as -v explains: {}", fmt::join(names, ", "))};
}

}  // namespace dovetail::reports
