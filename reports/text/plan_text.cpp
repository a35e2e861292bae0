// SPDX-License-Identifier: Apache-2.0
#include "reports/text/plan_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/files/plan_json.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> items;
  for (const Json& item : value) items.push_back(value_text(item));
  return items.empty() ? "none" : fmt::format("{}", fmt::join(items, " "));
}

std::string slices_text(const Json& slices, bool all) {
  if (!all) return fmt::format("{} (-v lists them)", slices.size());
  std::string text;
  for (const Json& slice : slices) {
    const std::string window = value_text(slice["window"]);
    const std::string place = window == "tail"
                                  ? "after the step"
                                  : fmt::format("beside the {} of layer {}", window == "moe" ? "experts" : "attention",
                                                slice["layer"].get<int>());
    text += fmt::format("{}{} elements {}", text.empty() ? "" : "\n" + std::string(21, ' '),
                        slice["elements"].get<std::int64_t>(), place);
  }
  return text;
}

std::string lines_text(const Json& lines, bool all) {
  if (!all) return fmt::format("{} lines (-v shows them)", lines.size());
  std::string text;
  for (const Json& line : lines)
    text += fmt::format("{}{}", text.empty() ? "" : "\n" + std::string(21, ' '), line.get<std::string>());
  return text;
}

std::string knob_text(const Knob& knob, const Json& value, bool all) {
  if (std::holds_alternative<SlicesKnob>(knob.type)) return slices_text(value, all);
  if (std::holds_alternative<ProgramKnob>(knob.type)) return lines_text(value, all);
  return value_text(value);
}

// "  forward_degree 2, scope moe": the knobs that are not at their defaults.
std::string changed_knobs(const Plan& plan, std::span<const Knob> table) {
  std::string text;
  for (const Knob& knob : table)
    if (!has_default(knob, plan))
      text +=
          fmt::format("{}{} {}", text.empty() ? "  " : ", ", knob.name, knob_text(knob, value_json(knob, plan), false));
  return wrapped(text.empty() ? "  every knob is at its default" : text, 98, 4) + "\n";
}

std::string all_knobs(const Plan& plan, std::span<const Knob> table) {
  std::string text, rest;
  for (const Knob& knob : table) {
    const Json value = value_json(knob, plan);
    if (has_default(knob, plan))
      rest += fmt::format("{}{} {}", rest.empty() ? "  other knobs: " : ", ", knob.name, value_text(value));
    else
      text += fmt::format("  {:<18} {}\n", knob.name, knob_text(knob, value, true));
  }
  return text + wrapped(rest, 118, 4) + "\n";
}

}  // namespace

std::string plan_text(const Plan& plan, bool verbose, std::span<const Knob> table) {
  return verbose ? all_knobs(plan, table) : changed_knobs(plan, table);
}

}  // namespace dovetail::reports
