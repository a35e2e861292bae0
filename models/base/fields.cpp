// SPDX-License-Identifier: Apache-2.0
#include "models/base/fields.hpp"

#include <algorithm>

namespace dovetail {

Field Field::must() && {
  required = true;
  return std::move(*this);
}

Field Field::in(std::string_view unit_name) && {
  unit = unit_name;
  return std::move(*this);
}

Field Field::from(std::vector<FieldGiver> who, std::string_view otherwise_taken) && {
  givers = std::move(who);
  otherwise = otherwise_taken;
  return std::move(*this);
}

Field Field::else_taken(std::string_view words) && {
  otherwise = words;
  return std::move(*this);
}

Field Field::only_in(FieldPlace where) && {
  place = where;
  return std::move(*this);
}

Field Field::as_result(std::string_view name_there) && {
  result_name = name_there;
  return std::move(*this);
}

Field Field::for_experts() && {
  of_experts = true;
  return std::move(*this);
}

Field Field::unless_usual() && {
  only_if_unusual = true;
  return std::move(*this);
}

const Field* FieldTable::find(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

FieldTable FieldTable::make(std::string_view title, std::string_view help, std::vector<Field> fields,
                            std::shared_ptr<const void> usual) {
  FieldTable table{std::string(title), std::string(help), std::move(fields), std::move(usual)};
  for (Field& field : table.fields)
    if (field.only_if_unusual)
      field.written = [get = field.get, value = field.get(table.usual.get())](const void* owner) {
        return get(owner) != value;
      };
  return table;
}

Field field::described(std::string_view name, FieldType type, std::string_view help) {
  return {std::string(name), std::move(type), std::string(help)};
}

}  // namespace dovetail
