// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_text.hpp"

#include <nlohmann/json.hpp>

namespace dovetail {
namespace {

constexpr std::size_t longest_quote = 60;

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  using nlohmann::json;
  std::string shown(text.substr(0, longest_quote));
  if (shown.size() < text.size()) {
    std::size_t end = shown.size();
    while (end > 0 && continues_character(text[end])) --end;
    shown.resize(end);
    shown += "...";
  }
  return json(shown).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string describe(const nlohmann::json& value) {
  if (value.is_string()) return "the string " + in_quotes(value.get_ref<const std::string&>());
  if (value.is_number_float() && value.dump() == "null") return "a number that is not finite";
  if (value.is_number()) return "the number " + value.dump();
  if (value.is_object()) return value.empty() ? "an empty object" : "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  return value.dump();
}

std::string join_or(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string child_pointer(std::string_view pointer, std::string_view key) {
  std::string result(pointer);
  result += '/';
  for (char c : key) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return result;
}

std::string child_pointer(std::string_view pointer, std::size_t index) {
  return child_pointer(pointer, std::to_string(index));
}

std::vector<std::string> pointer_steps(std::string_view pointer) {
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      steps.emplace_back();
    } else if (steps.empty()) {
      steps.emplace_back(1, pointer[i]);
    } else if (pointer[i] == '~' && i + 1 < pointer.size()) {
      steps.back() += pointer[++i] == '1' ? '/' : '~';
    } else {
      steps.back() += pointer[i];
    }
  }
  return steps;
}

}  // namespace dovetail
