// SPDX-License-Identifier: Apache-2.0
// From JSON to the fields of a table, and back.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/base/fields.hpp"
#include "models/base/json/json_reader.hpp"

namespace dovetail {

// Inputs: as users write them, quantities with their units. Results: as results and saved schedules have them,
// quantities as numbers in base units and the unit in the key ("memory_bytes").
enum class FieldForm { Inputs, Results };

// Sets the fields that are given; the others keep the values of `object`, which has the type of the table. Fields that
// functions of their own read are left out. Throws InputError at the place of what is missing, of another type, out of
// bounds, or given although it does not apply.
void read_fields(const JsonReader& json, const FieldTable& table, void* object, FieldForm form = FieldForm::Inputs);

// The value of one field. Throws InputError if it is of another type or out of bounds. Not for parts.
FieldValue read_value(const JsonReader& json, const FieldType& type, FieldForm form = FieldForm::Inputs);

// The fields as JSON, in the order of the table; nothing for those that functions of their own write. Inputs have no
// field that is as in a new object, and times in us, rates in GB/s or TFLOP/s.
nlohmann::ordered_json write_fields(const FieldTable& table, const void* object, FieldForm form = FieldForm::Results);

// The name of a field in results.
std::string name_in_results(const Field& field);

template <class T>
void read_fields(const JsonReader& json, T& object, FieldForm form = FieldForm::Inputs) {
  read_fields(json, fields_of<T>(), &object, form);
}

template <class T>
T fields_from(const JsonReader& json, FieldForm form = FieldForm::Inputs) {
  T object;
  read_fields(json, object, form);
  return object;
}

}  // namespace dovetail
