// SPDX-License-Identifier: Apache-2.0
// JSON for people to read: what fits a line stands on one.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dovetail::test {

inline std::string on_one_line(const nlohmann::ordered_json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += nlohmann::ordered_json(key).dump() + ": ";
    text += on_one_line(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// Lists and objects that are longer than `width` with their indentation, or that hold objects, have a line for each
// item.
inline std::string compact_json(const nlohmann::ordered_json& value, std::size_t indent = 0, std::size_t width = 118) {
  bool simple = true;
  for (const auto& item : value)
    if (item.is_structured() && !item.empty() && value.is_object()) simple = simple && item.is_array();
  const std::string line = on_one_line(value);
  const bool is_leaf = simple || (value.is_object() && value.size() == 1);
  if (!value.is_structured() || value.empty() || (is_leaf && indent + line.size() <= width)) return line;
  if (value.is_object() && simple && value.contains("description")) return line;  // one long sentence
  std::string text;
  const std::string space(indent + 2, ' ');
  for (const auto& [key, item] : value.items()) {
    text += (text.empty() ? "" : ",\n") + space;
    if (value.is_object()) text += nlohmann::ordered_json(key).dump() + ": ";
    text += compact_json(item, indent + 2, width);
  }
  const std::string end = "\n" + std::string(indent, ' ');
  return value.is_object() ? "{\n" + text + end + "}" : "[\n" + text + end + "]";
}

}  // namespace dovetail::test
