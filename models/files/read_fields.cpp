// SPDX-License-Identifier: Apache-2.0
#include "models/files/read_fields.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/names.hpp"
#include "models/base/overloaded.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

constexpr Names<QuantityKind, 6> units_in_keys{{{"_s", QuantityKind::Time},
                                                {"_bytes", QuantityKind::Data},
                                                {"_bytes_per_s", QuantityKind::Bandwidth},
                                                {"_flops_per_s", QuantityKind::ComputeRate},
                                                {"_s_per_byte", QuantityKind::TimePerByte},
                                                {"_s_per_flop", QuantityKind::TimePerFlop}}};

double read_quantity(const JsonReader& json, QuantityField type, FieldForm form) {
  if (form == FieldForm::Results) return json.number(0);
  const Sign sign = type.positive ? Sign::Positive : Sign::NonNegative;
  switch (type.kind) {
    case QuantityKind::Time:
      return json.quantity<Seconds>(sign).value();
    case QuantityKind::Data:
      return json.quantity<Bytes>(sign).value();
    case QuantityKind::Bandwidth:
      return json.quantity<BytesPerSecond>(sign).value();
    case QuantityKind::ComputeRate:
      return json.quantity<FlopsPerSecond>(sign).value();
    case QuantityKind::TimePerByte:
      return json.quantity<SecondsPerByte>(sign).value();
    case QuantityKind::TimePerFlop:
      return json.quantity<SecondsPerFlop>(sign).value();
  }
  throw InternalError("a quantity without a kind");
}

double read_number(const JsonReader& json, NumberField type) {
  const double value = json.number(type.above ? -JsonReader::number_max : type.least, type.most);
  if (type.above && value <= type.least) json.fail(fmt::format("{}, expected more than {}", value, type.least));
  return value;
}

std::string read_text(const JsonReader& json, TextField type, FieldForm form) {
  std::string value = json.string();
  if (value.empty() && !type.may_be_empty && form == FieldForm::Inputs) json.fail("expected a text, got an empty one");
  return value;
}

std::vector<int> read_list(const JsonReader& json, WholesField type) {
  std::vector<int> list;
  for (const JsonReader& item : json.elements())
    list.push_back(static_cast<int>(item.long_integer(type.least, type.most)));
  return list;
}

std::string read_choice(const JsonReader& json, const ChoiceField& type) {
  std::vector<std::pair<std::string_view, std::size_t>> names;
  for (std::size_t i = 0; i < type.names.size(); ++i) names.emplace_back(type.names[i], i);
  return type.names[json.enumeration(names)];
}

// Fields of a form that this form does not have.
bool elsewhere(const Field& field, FieldForm form) {
  return field.place == (form == FieldForm::Inputs ? FieldPlace::Results : FieldPlace::Inputs);
}

void read_field(const JsonReader& json, const Field& field, void* object, FieldForm form) {
  if (const auto* part = std::get_if<PartField>(&field.type)) {
    if (part->open) read_fields(json, part->table(), part->open(object), form);
  } else if (const auto* parts = std::get_if<PartsField>(&field.type)) {
    for (const JsonReader& item : json.elements()) read_fields(item, parts->table(), parts->append(object), form);
  } else if (field.set) {
    field.set(object, read_value(json, field.type, form));
  }
}

// A field applies to what the whole object has become.
void require_applicable(const JsonReader& json, const Field& field, const std::string& key, const void* object) {
  const bool applies = !field.applies || field.applies(object);
  if (!applies && json.has(key)) json.fail(key, field.why);
  if (applies && field.required && !json.has(key)) (void)json.at(key);
}

Json value_json(const FieldValue& value) {
  return std::visit(Overloaded{[](std::monostate) { return Json(); }, [](const auto& other) { return Json(other); }},
                    value);
}

bool in_results(const Field& field, const void* object) {
  if (elsewhere(field, FieldForm::Results)) return false;
  if (field.applies && !field.applies(object)) return false;
  return !field.written || field.written(object);
}

// Null where there is none.
Json field_json(const Field& field, const void* object) {
  if (const auto* part = std::get_if<PartField>(&field.type)) {
    const void* found = part->find ? part->find(object) : nullptr;
    return found != nullptr ? write_fields(part->table(), found) : Json();
  }
  if (const auto* parts = std::get_if<PartsField>(&field.type)) {
    Json list = Json::array();
    for (const void* item : parts->items(object)) list.push_back(write_fields(parts->table(), item));
    return list;
  }
  if (field.shown) return value_json(field.shown(object));
  return field.get ? value_json(field.get(object)) : Json();
}

}  // namespace

FieldValue read_value(const JsonReader& json, const FieldType& type, FieldForm form) {
  return std::visit(
      Overloaded{[&](FlagField) -> FieldValue { return json.boolean(); },
                 [&](WholeField whole) -> FieldValue { return json.long_integer(whole.least, whole.most); },
                 [&](const NumberField& number) -> FieldValue { return read_number(json, number); },
                 [&](TextField text) -> FieldValue { return read_text(json, text, form); },
                 [&](const ChoiceField& choice) -> FieldValue { return read_choice(json, choice); },
                 [&](QuantityField quantity) -> FieldValue { return read_quantity(json, quantity, form); },
                 [&](WholesField list) -> FieldValue { return read_list(json, list); },
                 [](const auto&) -> FieldValue { throw InternalError("an object is no value"); }},
      type);
}

std::string name_in_results(const Field& field) {
  if (!field.result_name.empty()) return field.result_name;
  const auto* quantity = std::get_if<QuantityField>(&field.type);
  return quantity == nullptr ? field.name : field.name + std::string(name_in(units_in_keys, quantity->kind));
}

void read_fields(const JsonReader& json, const FieldTable& table, void* object, FieldForm form) {
  for (const Field& field : table.fields) {
    const std::string key = form == FieldForm::Inputs ? field.name : name_in_results(field);
    if (elsewhere(field, form)) continue;
    if (const auto given = json.find(key)) read_field(*given, field, object, form);
  }
  for (const Field& field : table.fields)
    if (!elsewhere(field, form))
      require_applicable(json, field, form == FieldForm::Inputs ? field.name : name_in_results(field), object);
}

Json write_fields(const FieldTable& table, const void* object) {
  Json json = Json::object();
  for (const Field& field : table.fields) {
    if (!in_results(field, object)) continue;
    Json value = field_json(field, object);
    if (!value.is_null()) json[name_in_results(field)] = std::move(value);
  }
  return json;
}

}  // namespace dovetail
