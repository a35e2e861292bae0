// SPDX-License-Identifier: Apache-2.0
// The best plans once more, by other means than the model that chose them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

// Whether the first of the plans is the fastest by the other means too. Ties are not told apart.
std::string order_line(const Confirmation& confirmation) {
  if (confirmation.in_small) return "sizes differ from plan to plan, so these times do not rank them";
  const auto fastest = std::ranges::min_element(confirmation.plans, {}, &ConfirmedPlan::step);
  const ConfirmedPlan& first = confirmation.plans.front();
  constexpr double alike = 1e-3;
  if (fastest->step >= first.step * (1 - alike))
    return fmt::format("none of these is more than {:g} % faster there than plan {}", 100 * alike, first.rank);
  return fmt::format("there plan {} is the fastest, {:.2g} % faster than plan {}", fastest->rank,
                     100 * (1 - fastest->step / first.step), first.rank);
}

SectionContent confirmation_content(const Report& report, Detail) {
  SectionContent content;
  if (!report.tuning || !report.tuning->confirmation) return content;
  const Confirmation& confirmation = *report.tuning->confirmation;
  const std::string& by = confirmation.by;
  content.title = confirmation.in_small ? fmt::format("the best plans, really run in small ({})", by)
                                        : fmt::format("the best plans, simulated by {}", by);
  content.headings = {"rank", "predicted\nms", (confirmation.in_small ? "measured" : by) + "\nms", "x"};
  const auto milliseconds = [&](Seconds time) {
    return confirmation.in_small ? significant(1e3 * time.value()) : in_ms(time, ms_decimals(report));
  };
  for (const ConfirmedPlan& plan : confirmation.plans)
    content.rows.push_back({{std::to_string(plan.rank), milliseconds(plan.modelled), milliseconds(plan.step),
                             fixed(plan.step / plan.modelled, 3)}});
  if (!confirmation.plans.empty()) content.lines.push_back({order_line(confirmation)});
  for (const std::string& reason : confirmation.refused) content.lines.push_back({reason});
  return content;
}

void add_confirmation(const Report& report, nlohmann::ordered_json& file) {
  if (!report.tuning) return;
  nlohmann::ordered_json& member = file["confirmation"] = nullptr;
  if (!report.tuning->confirmation) return;
  const Confirmation& confirmation = *report.tuning->confirmation;
  auto plans = nlohmann::ordered_json::array();
  for (const ConfirmedPlan& plan : confirmation.plans)
    plans.push_back({{"rank", plan.rank}, {"predicted_s", number(plan.modelled)}, {"confirmed_s", number(plan.step)}});
  member = {{"by", confirmation.by},
            {"result_kind", confirmation.in_small ? "measured" : "simulated"},
            {"in_small", confirmation.in_small},
            {"plans", std::move(plans)},
            {"refused", confirmation.refused}};
}

}  // namespace

Section confirmation() {
  return {"confirmation", Titled::Always, "", confirmation_content, nullptr, nullptr, add_confirmation};
}

}  // namespace dovetail::reports
