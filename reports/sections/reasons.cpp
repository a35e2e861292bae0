// SPDX-License-Identifier: Apache-2.0
// Why the planners chose what they chose.
#include <fmt/format.h>

#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

std::string reason_of(const SystemResult& result) {
  const PlannerReport& planner = result.planner;
  std::string line = fmt::format("{} ({}): {}", result.system, planner.name, planner.reason);
  if (planner.runner_up) line += fmt::format("; runner-up {}", *planner.runner_up);
  if (planner.regret && *planner.regret < 1e-4) line += "; the best of all plans";
  if (planner.regret && *planner.regret >= 1e-4)
    line += fmt::format("; {:.2f} % slower than the best of all plans", *planner.regret * 100);
  if (planner.evaluations > 1)
    line += fmt::format("; {} plans evaluated in {}", planner.evaluations, duration(planner.time));
  return line;
}

SectionContent reasons_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!in_depth(report, detail)) return content;
  for (const SystemResult& result : report.results)
    if (!result.planner.reason.empty() && !is_measured(result)) content.lines.push_back({reason_of(result)});
  return content;
}

}  // namespace

Section reasons() {
  return {"why", Titled::Always, "", reasons_content};
}

}  // namespace dovetail::reports
