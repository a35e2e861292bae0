// SPDX-License-Identifier: Apache-2.0
#include "models/files/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "models/files/hf_keys.hpp"

namespace dovetail {
namespace {

constexpr std::string_view text_keys[] = {"thinker_config", "text_config", "llm_config", "language_config"};

JsonReader text_of(const JsonReader& whole) {
  for (const std::string_view key : text_keys)
    if (whole.has(key) && whole.at(key).value().is_object()) return text_of(whole.at(key));
  return whole;
}

std::optional<JsonReader> find_path(JsonReader json, std::string_view path) {
  while (true) {
    const auto slash = path.find('/');
    const std::string_view key = path.substr(0, slash);
    if (!json.value().is_object() || !json.has(key) || json.at(key).value().is_null()) return {};
    json = json.at(key);
    if (slash == std::string_view::npos) return json;
    path.remove_prefix(slash + 1);
  }
}

int integer_of(const JsonReader& json, int min, int max) {
  if (!json.value().is_array()) return json.integer(min, max);
  const std::vector<JsonReader> elements = json.elements();
  if (elements.empty()) json.fail("an empty list, expected a number, or one for each layer");
  const int first = elements.front().integer(min, max);
  for (const JsonReader& each : elements)
    if (each.integer(min, max) != first)
      each.fail(fmt::format("{} after {}: layers of different sizes are not built, expected the same", each.integer(),
                            first));
  return first;
}

}  // namespace

HfConfig::HfConfig(const JsonFile& file)
    : whole_(file), text_(text_of(whole_)), nested_(text_.pointer() != whole_.pointer()) {}

std::string HfConfig::model_type() const {
  if (text_.has("model_type")) return text_.string("model_type");
  return whole_.string_or("model_type", "");
}

std::optional<JsonReader> HfConfig::find(Keys keys) const {
  std::optional<JsonReader> first;
  for (const std::string_view key : keys) {
    asked_.emplace(key.substr(0, key.find('/')));
    if (!first) first = find_path(text_, key);
  }
  return first;
}

JsonReader HfConfig::at(Keys keys) const {
  if (auto found = find(keys)) return *found;
  const std::span names(keys.begin(), keys.size());
  text_.fail(names.size() == 1 ? fmt::format("missing key \"{}\"", names[0])
                               : fmt::format("missing key \"{}\", in other families \"{}\"", names[0],
                                             fmt::join(names.subspan(1), "\", \"")));
}

int HfConfig::integer(Keys keys, int min, int max) const {
  return integer_of(at(keys), min, max);
}

int HfConfig::integer_or(Keys keys, int fallback, int min, int max) const {
  const auto found = find(keys);
  return found ? integer_of(*found, min, max) : fallback;
}

double HfConfig::number_or(Keys keys, double fallback) const {
  const auto found = find(keys);
  return found ? found->number() : fallback;
}

bool HfConfig::boolean_or(Keys keys, bool fallback) const {
  const auto found = find(keys);
  if (!found) return fallback;
  return found->value().is_number() ? found->number() != 0 : found->boolean();
}

std::vector<std::string> HfConfig::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : text_.value().items()) {
    const bool off = value.is_null() || (value.is_boolean() && !value.get<bool>());
    if (!off && !asked_.contains(key) && !says_no_work(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace dovetail
