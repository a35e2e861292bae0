// SPDX-License-Identifier: Apache-2.0
// The settings that each system's planner may choose.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

// Systems that could choose the same stand in one line.
SectionContent choices_content(const Report& report, Detail detail) {
  SectionContent content;
  if (detail == Detail::Brief || report.results.size() < 2 || report.tuning) return content;
  std::vector<std::pair<std::string, std::string>> lines;  // choices and names
  for (const SystemResult& result : report.results) {
    if (is_measured(result)) continue;
    const std::string text = result.planner.choices.empty() ? "nothing" : result.planner.choices;
    const auto known = std::ranges::find(lines, text, &std::pair<std::string, std::string>::first);
    if (known == lines.end())
      lines.emplace_back(text, name_of(result));
    else
      known->second += ", " + name_of(result);
  }
  for (const auto& [choices, names] : lines) content.lines.push_back({fmt::format("{}: {}", names, choices)});
  return content;
}

}  // namespace

Section choices() {
  return {"what each may choose", Titled::Always, "", choices_content};
}

}  // namespace dovetail::reports
