// SPDX-License-Identifier: Apache-2.0
#include "models/files/read_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
    if (const std::size_t count = json.elements().size(); count < parts->fewest)
      json.fail(fmt::format("{} entries, expected at least {}", count, parts->fewest));
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

struct WrittenUnit {
  QuantityKind kind;
  double size;
  std::string_view name;
};
constexpr std::array written_units{
    WrittenUnit{QuantityKind::Time, 1e-6, "us"},           WrittenUnit{QuantityKind::Data, 0x1p30, "GiB"},
    WrittenUnit{QuantityKind::Bandwidth, 1e9, "GB/s"},     WrittenUnit{QuantityKind::ComputeRate, 1e12, "TFLOP/s"},
    WrittenUnit{QuantityKind::TimePerByte, 1e-12, "ps/B"}, WrittenUnit{QuantityKind::TimePerFlop, 1e-15, "fs/flop"}};

std::string quantity_text(double value, QuantityKind kind) {
  const auto& unit = *std::ranges::find(written_units, kind, &WrittenUnit::kind);
  return fmt::format("{:.9g} {}", value / unit.size, unit.name);
}

Json value_json(const FieldValue& value, const FieldType& type, FieldForm form) {
  if (const auto* quantity = std::get_if<QuantityField>(&type); quantity != nullptr && form == FieldForm::Inputs)
    if (const auto* number = std::get_if<double>(&value)) return quantity_text(*number, quantity->kind);
  return std::visit(Overloaded{[](std::monostate) { return Json(); }, [](const auto& other) { return Json(other); }},
                    value);
}

bool is_written(const Field& field, const FieldTable& table, const void* object, FieldForm form) {
  if (elsewhere(field, form)) return false;
  if (field.applies && !field.applies(object)) return false;
  if (field.written && !field.written(object)) return false;
  return form == FieldForm::Results || field.required || !field.get ||
         field.get(object) != field.get(table.usual.get());
}

// Null where there is none.
Json field_json(const Field& field, const void* object, FieldForm form) {
  if (const auto* part = std::get_if<PartField>(&field.type)) {
    const void* found = part->find ? part->find(object) : nullptr;
    return found != nullptr ? write_fields(part->table(), found, form) : Json();
  }
  if (const auto* parts = std::get_if<PartsField>(&field.type)) {
    Json list = Json::array();
    for (const void* item : parts->items(object)) list.push_back(write_fields(parts->table(), item, form));
    return list.empty() && form == FieldForm::Inputs && !field.required ? Json() : list;
  }
  if (field.shown && form == FieldForm::Results) return value_json(field.shown(object), field.type, form);
  return field.get ? value_json(field.get(object), field.type, form) : Json();
}

std::string key_of(const Field& field, FieldForm form) {
  return form == FieldForm::Inputs ? field.name : name_in_results(field);
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
  for (const Field& field : table.fields)
    if (!elsewhere(field, form))
      if (const auto given = json.find(key_of(field, form))) read_field(*given, field, object, form);
  for (const Field& field : table.fields)
    if (!elsewhere(field, form)) require_applicable(json, field, key_of(field, form), object);
}

Json write_fields(const FieldTable& table, const void* object, FieldForm form) {
  Json json = Json::object();
  for (const Field& field : table.fields) {
    if (!is_written(field, table, object, form)) continue;
    Json value = field_json(field, object, form);
    if (!value.is_null()) json[key_of(field, form)] = std::move(value);
  }
  return json;
}

}  // namespace dovetail
