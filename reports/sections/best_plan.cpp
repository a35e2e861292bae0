// SPDX-License-Identifier: Apache-2.0
// The settings of the plan that was chosen. A page has them in a table of its own.
#include <fmt/format.h>

#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/plan_text.hpp"

namespace dovetail::reports {
namespace {

SectionContent plan_content(const Report& report, Detail detail) {
  SectionContent content;
  const bool chosen = report.kind == "plan" || report.tuning;
  if (!chosen || detail == Detail::Page || report.results.empty()) return content;
  const SystemResult& best = report.results.front();
  if (!report.tuning) content.title = fmt::format("plan of {}", name_of(best));
  content.code = plan_text(best.plan, detail == Detail::Full);
  return content;
}

}  // namespace

Section best_plan() {
  return {"the best plan", Titled::Always, "", plan_content};
}

}  // namespace dovetail::reports
