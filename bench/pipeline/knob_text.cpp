// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/knob_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/files/plan_json.hpp"
#include "models/plan/plan_rules.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr std::size_t width = 118;

std::string entry(std::string_view name, std::string_view remark, std::string_view help) {
  return reports::wrapped(fmt::format("  {:<26} {}{}", name, help, remark), width, 29) + "\n";
}

std::string knob_text(const Knob& knob) {
  const nlohmann::ordered_json usual = value_json(knob, Plan{});
  const std::string shown = usual.is_string() ? usual.get<std::string>() : usual.is_array() ? "none" : usual.dump();
  const std::string remark = fmt::format(" [{}{}]", shown, knob.built ? "" : ", others are not built yet");
  std::string text = entry(knob.name, remark, knob.help);
  for (const KnobValue& value : named_values(knob))
    text += entry(fmt::format("    {}", value.name), value.built ? "" : " Not built yet.", value.help);
  return text;
}

}  // namespace

std::string knobs_text(std::span<const Knob> table) {
  std::string text = "Knobs of a plan, for plan files and --set plan.KNOB=VALUE; defaults in brackets.\n";
  for (const auto& [name, group] : knob_class_names) {
    text += fmt::format("\n{}:\n", name);
    for (const Knob& knob : table)
      if (knob.group == group) text += knob_text(knob);
  }
  text += "\nrules between knobs:\n";
  for (const PlanRule& rule : plan_rules()) text += entry(rule.name, "", rule.help);
  return text;
}

}  // namespace dovetail::bench
