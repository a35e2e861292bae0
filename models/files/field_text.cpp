// SPDX-License-Identifier: Apache-2.0
#include "models/files/field_text.hpp"

#include <fmt/format.h>

#include "models/base/json/json_text.hpp"
#include "models/base/overloaded.hpp"

namespace dovetail {
namespace {

constexpr Names<QuantityKind, 6> unit_names{{{"time", QuantityKind::Time},
                                             {"data", QuantityKind::Data},
                                             {"data per time", QuantityKind::Bandwidth},
                                             {"flops per time", QuantityKind::ComputeRate},
                                             {"time per byte", QuantityKind::TimePerByte},
                                             {"time per flop", QuantityKind::TimePerFlop}}};

std::string bounds_text(double least, double most, double unbounded) {
  const bool from = least > -unbounded, to = most < unbounded;
  if (from && to) return fmt::format(" from {} to {}", least, most);
  if (from) return fmt::format(" from {} on", least);
  return to ? fmt::format(" up to {}", most) : "";
}

std::string whole_text(std::int64_t least, std::int64_t most) {
  const bool bounded = most < std::numeric_limits<int>::max();
  return bounded ? fmt::format("{} to {}", least, most) : fmt::format("{} or more", least);
}

std::string value_text(const FieldValue& value) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("none"); },
                 [](bool on) { return std::string(on ? "true" : "false"); },
                 [](const std::string& text) { return text.empty() ? "none" : text; },
                 [](const std::vector<int>& list) { return std::string(list.empty() ? "none" : "a list"); },
                 [](const auto& number) { return fmt::format("{}", number); }},
      value);
}

}  // namespace

std::string unit_text(const Field& field) {
  if (const auto* quantity = std::get_if<QuantityField>(&field.type))
    return std::string(name_in(unit_names, quantity->kind));
  return field.unit;
}

std::string values_text(const Field& field) {
  const std::string suffix = field.unit.empty() ? "" : " " + field.unit;
  return std::visit(Overloaded{[](FlagField) { return std::string("true or false"); },
                               [&](WholeField whole) { return whole_text(whole.least, whole.most) + suffix; },
                               [&](const NumberField& number) {
                                 return "number" +
                                        bounds_text(number.least, number.most, std::numeric_limits<double>::max());
                               },
                               [](TextField) { return std::string("text"); },
                               [](const ChoiceField& choice) { return join_or(choice.names); },
                               [&](QuantityField) { return unit_text(field); },
                               [](WholesField) { return std::string("list of numbers"); },
                               [](const PartField&) { return std::string("object"); },
                               [](const PartsField&) { return std::string("list of objects"); },
                               [](const OtherField&) { return std::string("in a file"); }},
                    field.type);
}

std::string default_text(const Field& field, const FieldTable& table) {
  if (field.required) return "";
  std::string text;
  for (const FieldGiver giver : field.givers) text += fmt::format("the {}'s, else ", name_in(field_giver_names, giver));
  if (!field.otherwise.empty()) return text + field.otherwise;
  if (field.get) return text + value_text(field.get(table.usual.get()));
  constexpr std::string_view last = ", else ";
  return text.empty() ? "" : text.substr(0, text.size() - last.size());
}

}  // namespace dovetail
