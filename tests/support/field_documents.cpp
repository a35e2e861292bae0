// SPDX-License-Identifier: Apache-2.0
#include "tests/support/field_documents.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/overloaded.hpp"
#include "models/files/field_text.hpp"
#include "models/files/read_fields.hpp"
#include "models/question/fields.hpp"
#include "tests/support/compact_json.hpp"

namespace dovetail::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr Names<QuantityKind, 6> definitions_of_units{{{"time", QuantityKind::Time},
                                                       {"data", QuantityKind::Data},
                                                       {"bandwidth", QuantityKind::Bandwidth},
                                                       {"compute_rate", QuantityKind::ComputeRate},
                                                       {"time_per_byte", QuantityKind::TimePerByte},
                                                       {"time_per_flop", QuantityKind::TimePerFlop}}};

Json object_schema(const FieldTable& table, FieldForm form);

Json whole_schema(std::int64_t least, std::int64_t most) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

Json number_schema(const NumberField& number) {
  constexpr double unbounded = std::numeric_limits<double>::max();
  Json schema{{"type", "number"}};
  if (number.least > -unbounded) schema[number.above ? "exclusiveMinimum" : "minimum"] = number.least;
  if (number.most < unbounded) schema["maximum"] = number.most;
  return schema;
}

Json quantity_schema(QuantityField quantity, FieldForm form) {
  if (form == FieldForm::Results) return {{"type", "number"}, {"minimum", 0}};
  return {{"$ref", fmt::format("units.schema.json#/definitions/{}", name_in(definitions_of_units, quantity.kind))}};
}

Json text_schema(TextField text, FieldForm form) {
  Json schema{{"type", "string"}};
  if (!text.may_be_empty && form == FieldForm::Inputs) schema["minLength"] = 1;
  return schema;
}

Json type_schema(const Field& field, FieldForm form) {
  return std::visit(
      Overloaded{[](FlagField) {
                   return Json{{"type", "boolean"}};
                 },
                 [](WholeField whole) { return whole_schema(whole.least, whole.most); },
                 [](const NumberField& number) { return number_schema(number); },
                 [&](TextField text) { return text_schema(text, form); },
                 [](const ChoiceField& choice) {
                   return Json{{"enum", choice.names}};
                 },
                 [&](QuantityField quantity) { return quantity_schema(quantity, form); },
                 [](WholesField list) {
                   return Json{{"type", "array"}, {"items", whole_schema(list.least, list.most)}};
                 },
                 [&](const PartField& part) { return object_schema(part.table(), form); },
                 [&](const PartsField& list) {
                   return Json{{"type", "array"}, {"items", object_schema(list.table(), form)}};
                 },
                 [&](const OtherField& other) {
                   return form == FieldForm::Inputs ? Json{{"$ref", other.schema}} : Json{{"type", other.in_results}};
                 }},
      field.type);
}

std::string without_quotes(std::string text) {
  std::erase(text, '`');
  return text;
}

std::string description(const Field& field, const FieldTable& table, FieldForm form) {
  std::string text = without_quotes(field.help);
  if (const std::string unit = unit_text(field); text.find(unit) == std::string::npos) {
    if (text.ends_with('.')) text.pop_back();
    text += fmt::format(" ({}).", unit);
  }
  const std::string usual = default_text(field, table);
  if (form == FieldForm::Inputs && !usual.empty()) text += fmt::format(" Default: {}.", without_quotes(usual));
  return text;
}

// Whether every object of the table has the field.
bool always_there(const Field& field, const FieldTable& table, FieldForm form) {
  if (form == FieldForm::Inputs) return field.required && !field.applies;
  if (field.written || field.applies || field.of_experts) return false;
  if (const auto* part = std::get_if<PartField>(&field.type))
    return part->find && part->find(table.usual.get()) != nullptr;
  if (std::holds_alternative<PartsField>(field.type)) return true;
  return field.get && !std::holds_alternative<std::monostate>(field.get(table.usual.get()));
}

Json object_schema(const FieldTable& table, FieldForm form) {
  Json required = Json::array(), properties = Json::object();
  for (const Field& field : table.fields) {
    if (field.place == (form == FieldForm::Inputs ? FieldPlace::Results : FieldPlace::Inputs)) continue;
    const std::string key = form == FieldForm::Inputs ? field.name : name_in_results(field);
    Json property = type_schema(field, form);
    property["description"] = description(field, table, form);
    properties[key] = std::move(property);
    if (always_there(field, table, form)) required.push_back(key);
  }
  Json schema{{"type", "object"}, {"description", without_quotes(table.help)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  schema["properties"] = std::move(properties);
  return schema;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? "\\|" : std::string(1, c);
  return result;
}

std::string meaning(const Field& field, const FieldTable& table) {
  std::string text = field.help;
  if (const auto* choice = std::get_if<ChoiceField>(&field.type)) {
    std::string unnamed;
    for (const std::string& name : choice->names)
      if (text.find("`" + name + "`") == std::string::npos)
        unnamed += fmt::format("{}`{}`", unnamed.empty() ? "" : ", ", name);
    if (!unnamed.empty()) text += fmt::format(" Values: {}.", unnamed);
  }
  if (const std::string usual = default_text(field, table); !usual.empty()) {
    if (text.ends_with('.')) text.pop_back();
    text += fmt::format(" [{}]", usual);
  }
  return escaped(text);
}

std::string rows(const FieldTable& table, int depth) {
  std::string text, indent;
  for (int i = 0; i < depth; ++i) indent += "&nbsp; ";
  for (const Field& field : table.fields) {
    if (field.place == FieldPlace::Results) continue;
    const std::string unit = unit_text(field);
    text += fmt::format("| {}`{}` | {} | {} |\n", indent, field.name, unit.empty() ? "-" : unit, meaning(field, table));
    if (const auto* part = std::get_if<PartField>(&field.type)) text += rows(part->table(), depth + 1);
    if (const auto* list = std::get_if<PartsField>(&field.type)) text += rows(list->table(), depth + 1);
  }
  return text;
}

}  // namespace

std::string field_schema(const FieldTable& table, std::string_view definitions) {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", table.title}};
  const Json object = object_schema(table, FieldForm::Inputs);
  for (const auto& [key, value] : object.items()) schema[key] = value;
  Json properties{{"$schema", {{"type", "string"}, {"description", "For editors; not read."}}}};
  properties.update(schema["properties"]);
  schema["properties"] = std::move(properties);
  if (!definitions.empty()) schema["definitions"] = Json::parse(definitions);
  return compact_json(schema) + "\n";
}

std::string question_schema() {
  Json definitions = Json::object();
  for (const auto& [name, table] : {std::pair{"cluster", &fields_of<Cluster>()},
                                    {"model", &fields_of<Model>()},
                                    {"workload", &fields_of<Workload>()},
                                    {"parallelism", &fields_of<Parallelism>()}})
    definitions[name] = object_schema(*table, FieldForm::Results);
  const Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                    {"title", "The parts of a question, as results have them"},
                    {"description", "Times are seconds, sizes bytes, rates per second."},
                    {"type", "object"},
                    {"definitions", definitions}};
  return compact_json(schema) + "\n";
}

std::string field_rows(const FieldTable& table) {
  return "| field | unit | meaning [default] |\n|---|---|---|\n" + rows(table, 0);
}

std::string with_field_tables(const std::string& readme) {
  std::string text = readme;
  for (const auto& [name, table] : {std::pair{"cluster", &fields_of<Cluster>()},
                                    {"model", &fields_of<Model>()},
                                    {"workload", &fields_of<Workload>()},
                                    {"parallelism", &fields_of<Parallelism>()},
                                    {"event", &fields_of<SpeedEvent>()}}) {
    const std::string begin = fmt::format("<!-- the fields of {}, made from models/question by a test -->\n", name);
    const std::string end = "<!-- end -->\n";
    const std::size_t first = text.find(begin), last = text.find(end, first);
    check(first != std::string::npos && last != std::string::npos, "data/README.md has lost the marks of its fields");
    text = text.substr(0, first + begin.size()) + field_rows(*table) + text.substr(last);
  }
  return text;
}

}  // namespace dovetail::test
