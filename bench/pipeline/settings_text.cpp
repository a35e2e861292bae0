// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/settings_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/files/field_text.hpp"
#include "models/files/plan_json.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/question/question_fields.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr std::size_t width = 118;

std::string entry(std::string_view name, std::string_view remark, std::string_view help) {
  return reports::wrapped(fmt::format("  {:<26} {}{}", name, help, remark), width, 29) + "\n";
}

std::string usual_value(const Knob& knob) {
  const nlohmann::ordered_json usual = value_json(knob, Plan{});
  return usual.is_string() ? usual.get<std::string>() : usual.is_array() ? "none" : usual.dump();
}

std::string knob_text(const Knob& knob) {
  const std::string shown = usual_value(knob);
  const std::string remark = fmt::format(" [{}{}]", shown, knob.built ? "" : ", others are not built yet");
  std::string text = entry(knob.name, remark, knob.help);
  for (const KnobValue& value : named_values(knob))
    text += entry(fmt::format("    {}", value.name), value.built ? "" : " Not built yet.", value.help);
  return text;
}

// A key on a line, and below it what it is.
std::string setting(const std::string& path, const std::vector<std::string>& values, std::string_view help,
                    const std::string& usual) {
  std::string text(help);
  std::erase(text, '`');
  if (!usual.empty()) text += fmt::format(" [{}]", usual);
  return fmt::format("  {}={}\n", path, fmt::join(values, "|")) + reports::wrapped("      " + text, width, 6) + "\n";
}

std::string field_setting(const FieldPath& each) {
  std::vector<std::string> values;
  if (const auto* choice = std::get_if<ChoiceField>(&each.field->type)) values = choice->names;
  if (std::holds_alternative<FlagField>(each.field->type)) values = {"true", "false"};
  std::string usual = default_text(*each.field, *each.table);
  std::erase(usual, '`');
  return setting(each.path, values, each.field->help, usual);
}

std::string knob_setting(const Knob& knob) {
  std::vector<std::string> values;
  for (const KnobValue& value : named_values(knob)) values.emplace_back(value.name);
  if (std::holds_alternative<FlagKnob>(knob.type)) values = {"true", "false"};
  return setting(fmt::format("plan.{}", knob.name), values, knob.help, usual_value(knob));
}

}  // namespace

std::string settings_text() {
  std::string text =
      "What --set takes, as KEY=VALUE; a default stands in brackets. Values of the cluster and the model are those of "
      "its file.\ndovetail plan --knobs says what the values of plan mean.\n";
  std::string part;
  for (const FieldPath& each : question_fields()) {
    const std::string of = each.path.substr(0, each.path.find('.'));
    if (of != part) text += fmt::format("\n{}:\n", of);
    part = of;
    text += field_setting(each);
  }
  text += "\nplan:\n";
  for (const Knob& knob : knobs()) text += knob_setting(knob);
  return text;
}

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
