// SPDX-License-Identifier: Apache-2.0
#include "tests/support/field_documents.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/overloaded.hpp"
#include "models/files/field_text.hpp"
#include "models/files/read_fields.hpp"
#include "models/price/calibration_fields.hpp"
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

Json whole_schema(std::int64_t least, std::int64_t most) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

// 1, not 1.0, in messages.
Json bound(double value) {
  return value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json number_schema(const NumberField& number) {
  constexpr double unbounded = std::numeric_limits<double>::max();
  Json schema{{"type", "number"}};
  if (number.least > -unbounded) schema[number.above ? "exclusiveMinimum" : "minimum"] = bound(number.least);
  if (number.most < unbounded) schema["maximum"] = bound(number.most);
  return schema;
}

std::string without_quotes(std::string text) {
  std::erase(text, '`');
  return text;
}

// Tables whose schema is defined once, in this file.
const FieldTable* const defined = &fields_of<Provenance>();
constexpr std::string_view definition = "provenance", definition_file = "calibration.schema.json";

// Makes the schemas of one file.
struct SchemaMaker {
  FieldForm form = FieldForm::Inputs;
  std::string file;

  Json quantity(QuantityField type) const {
    if (form == FieldForm::Results) return {{"type", "number"}, {"minimum", 0}};
    return {{"$ref", fmt::format("units.schema.json#/definitions/{}", name_in(definitions_of_units, type.kind))}};
  }

  Json text(TextField type) const {
    Json schema{{"type", "string"}};
    if (!type.may_be_empty && form == FieldForm::Inputs) schema["minLength"] = 1;
    return schema;
  }

  Json part(const FieldTable& table) const {
    if (&table != defined) return object(table);
    const bool here = form == FieldForm::Results || file == definition_file;
    return {{"$ref", fmt::format("{}#/definitions/{}", here ? "" : definition_file, definition)}};
  }

  Json list(const PartsField& type) const {
    Json schema{{"type", "array"}, {"items", part(type.table())}};
    if (type.fewest > 0 && form == FieldForm::Inputs) schema["minItems"] = type.fewest;
    return schema;
  }

  Json other(const OtherField& type) const {
    if (form == FieldForm::Inputs) return {{"$ref", type.schema}};
    return {{type.in_results.ends_with(".json") ? "$ref" : "type", type.in_results}};
  }

  // Results have what programs make, whatever users may write.
  Json whole(WholeField type) const {
    if (form == FieldForm::Inputs) return whole_schema(type.least, type.most);
    return type.least < 0 ? Json{{"type", "integer"}} : Json{{"type", "integer"}, {"minimum", 0}};
  }

  Json number(const NumberField& type) const {
    return form == FieldForm::Inputs ? number_schema(type) : Json{{"type", "number"}};
  }

  Json type(const Field& field) const {
    return std::visit(
        Overloaded{[](FlagField) {
                     return Json{{"type", "boolean"}};
                   },
                   [&](WholeField each) { return whole(each); }, [&](const NumberField& each) { return number(each); },
                   [&](TextField each) { return text(each); },
                   [](const ChoiceField& choice) {
                     return Json{{"enum", choice.names}};
                   },
                   [&](QuantityField each) { return quantity(each); },
                   [&](WholesField each) {
                     return Json{{"type", "array"}, {"items", whole({each.least, each.most})}};
                   },
                   [&](const PartField& each) { return part(each.table()); },
                   [&](const PartsField& each) { return list(each); },
                   [&](const OtherField& each) { return other(each); }},
        field.type);
  }

  std::string description(const Field& field, const FieldTable& table) const {
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
  bool always_there(const Field& field, const FieldTable& table) const {
    if (form == FieldForm::Inputs) return field.required && !field.applies;
    if (field.written || field.applies || field.of_experts) return false;
    if (const auto* part = std::get_if<PartField>(&field.type))
      return part->find && part->find(table.usual.get()) != nullptr;
    if (std::holds_alternative<PartsField>(field.type)) return true;
    return field.get && !std::holds_alternative<std::monostate>(field.get(table.usual.get()));
  }

  Json object(const FieldTable& table) const {
    Json required = Json::array(), properties = Json::object();
    for (const Field& field : table.fields) {
      if (field.place == (form == FieldForm::Inputs ? FieldPlace::Results : FieldPlace::Inputs)) continue;
      const std::string key = form == FieldForm::Inputs ? field.name : name_in_results(field);
      Json property = type(field);
      property["description"] = description(field, table);
      properties[key] = std::move(property);
      if (always_there(field, table)) required.push_back(key);
    }
    Json schema{{"type", "object"}, {"description", without_quotes(table.help)}, {"additionalProperties", false}};
    if (!required.empty() || form == FieldForm::Results) schema["required"] = required;
    schema["properties"] = std::move(properties);
    return schema;
  }
};

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

std::string field_schema(const FieldTable& table, const std::string& file, const std::string& definitions) {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", table.title}};
  const SchemaMaker maker{FieldForm::Inputs, file};
  const Json object = maker.object(table);
  for (const auto& [key, value] : object.items()) schema[key] = value;
  Json properties{{"$schema", {{"type", "string"}, {"description", "For editors; not read."}}}};
  properties.update(schema["properties"]);
  schema["properties"] = std::move(properties);
  if (!definitions.empty()) schema["definitions"] = Json::parse(definitions);
  if (file == definition_file) schema["definitions"][definition] = maker.object(*defined);
  return compact_json(schema) + "\n";
}

std::string question_schema() {
  const SchemaMaker maker{FieldForm::Results, "question.schema.json"};
  Json definitions = Json::object();
  for (const auto& [name, table] : {std::pair{"cluster", &fields_of<Cluster>()},
                                    {"model", &fields_of<Model>()},
                                    {"calibration", &fields_of<Calibration>()},
                                    {"workload", &fields_of<Workload>()},
                                    {"parallelism", &fields_of<Parallelism>()},
                                    {"rates", &fields_of<WorkRates>()},
                                    {"provenance", defined}})
    definitions[name] = maker.object(*table);
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
                                    {"calibration", &fields_of<Calibration>()},
                                    {"parallelism", &fields_of<Parallelism>()},
                                    {"event", &fields_of<SpeedEvent>()}}) {
    const std::string begin = fmt::format("<!-- the fields of {}, made from its table by a test -->\n", name);
    const std::string end = "<!-- end -->\n";
    const std::size_t first = text.find(begin), last = text.find(end, first);
    check(first != std::string::npos && last != std::string::npos, "data/README.md has lost the marks of its fields");
    text = text.substr(0, first + begin.size()) + field_rows(*table) + text.substr(last);
  }
  return text;
}

}  // namespace dovetail::test
