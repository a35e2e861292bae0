// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail {
namespace {

using nlohmann::json;

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, ignored] : object.items()) keys.push_back(key);
  return keys;
}

// "from 1 to 64", "of at least 1", or nothing.
std::string range_in_words(const std::string& min, const std::string& max, bool has_min, bool has_max) {
  if (has_min && has_max) return fmt::format(" from {} to {}", min, max);
  if (has_min) return fmt::format(" of at least {}", min);
  if (has_max) return fmt::format(" of at most {}", max);
  return "";
}

// Whole numbers that int64 holds, also when written as 4.0 or 1e3.
std::optional<std::int64_t> whole(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(JsonReader::long_max)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double exact = 0x1p53;
  if (!(std::abs(number) <= exact) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

JsonReader::JsonReader(const JsonFile& file) : JsonReader(file, file.root(), "") {}

JsonReader::JsonReader(const JsonFile& file, const json& value, std::string pointer)
    : file_(&file), value_(&value), pointer_(std::move(pointer)) {}

void JsonReader::require_object() const {
  if (!value_->is_object()) fail_expected("an object");
}

const json* JsonReader::child(std::string_view key) const {
  require_object();
  const auto it = value_->find(key);
  return it == value_->end() ? nullptr : &*it;
}

bool JsonReader::has(std::string_view key) const {
  return child(key) != nullptr;
}

JsonReader JsonReader::at(std::string_view key) const {
  const json* found = child(key);
  if (!found) fail(fmt::format("missing key {}{}", in_quotes(key), did_you_mean(key, keys_of(*value_))));
  return JsonReader(*file_, *found, child_pointer(pointer_, key));
}

std::optional<JsonReader> JsonReader::find(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return at(key);
}

std::vector<JsonReader> JsonReader::elements() const {
  if (!value_->is_array()) fail_expected("an array");
  std::vector<JsonReader> result;
  result.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    result.push_back(JsonReader(*file_, (*value_)[i], child_pointer(pointer_, i)));
  return result;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  require_object();
  std::vector<std::pair<std::string, JsonReader>> result;
  for (const auto& [key, each] : value_->items())
    result.emplace_back(key, JsonReader(*file_, each, child_pointer(pointer_, key)));
  return result;
}

template <class Q>
Q JsonReader::quantity(Sign sign) const {
  if (!value_->is_string()) fail_expected(expected_quantity<Q>());
  const std::string& text = value_->get_ref<const std::string&>();
  Q result;
  try {
    result = parse_quantity<Q>(text);
  } catch (const InputError& error) {
    fail(error.what());
  }
  if (sign == Sign::Positive && !(result.value() > 0))
    fail(fmt::format("expected more than zero, got {}", in_quotes(text)));
  if (sign == Sign::NonNegative && !(result.value() >= 0))
    fail(fmt::format("expected no less than zero, got {}", in_quotes(text)));
  return result;
}

template Seconds JsonReader::quantity<Seconds>(Sign) const;
template Bytes JsonReader::quantity<Bytes>(Sign) const;
template Flops JsonReader::quantity<Flops>(Sign) const;
template BytesPerSecond JsonReader::quantity<BytesPerSecond>(Sign) const;
template FlopsPerSecond JsonReader::quantity<FlopsPerSecond>(Sign) const;
template SecondsPerByte JsonReader::quantity<SecondsPerByte>(Sign) const;
template SecondsPerFlop JsonReader::quantity<SecondsPerFlop>(Sign) const;

int JsonReader::integer(int min, int max) const {
  return static_cast<int>(long_integer(min, max));
}

std::int64_t JsonReader::long_integer(std::int64_t min, std::int64_t max) const {
  const std::optional<std::int64_t> result = whole(*value_);
  if (result && *result >= min && *result <= max) return *result;
  const bool has_min = min > std::numeric_limits<std::int64_t>::min();
  const bool has_max =
      max < int_max || (result && *result > max);  // the largest int is worth saying only when it was it
  fail_expected("a whole number" + range_in_words(std::to_string(min), std::to_string(max), has_min, has_max));
}

double JsonReader::number(double min, double max) const {
  const double result = value_->is_number() ? value_->get<double>() : std::nan("");
  if (std::isfinite(result) && result >= min && result <= max) return result;
  fail_expected("a number" +
                range_in_words(fmt::format("{}", min), fmt::format("{}", max), min > -number_max, max < number_max));
}

std::string JsonReader::string() const {
  if (!value_->is_string()) fail_expected("a string");
  return value_->get<std::string>();
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) fail_expected("true or false");
  return value_->get<bool>();
}

std::size_t JsonReader::choose(const std::vector<std::string>& names) const {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(in_quotes(name));
  if (!value_->is_string()) fail_expected(join_or(shown));
  const std::string& name = value_->get_ref<const std::string&>();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  fail(fmt::format("expected {}, got {}{}", join_or(shown), in_quotes(name), did_you_mean(name, names)));
}

int JsonReader::integer(std::string_view key, int min, int max) const {
  return at(key).integer(min, max);
}
std::int64_t JsonReader::long_integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  return at(key).long_integer(min, max);
}
double JsonReader::number(std::string_view key, double min, double max) const {
  return at(key).number(min, max);
}
std::string JsonReader::string(std::string_view key) const {
  return at(key).string();
}
bool JsonReader::boolean(std::string_view key) const {
  return at(key).boolean();
}

int JsonReader::integer_or(std::string_view key, int fallback, int min, int max) const {
  return has(key) ? integer(key, min, max) : fallback;
}
double JsonReader::number_or(std::string_view key, double fallback, double min, double max) const {
  return has(key) ? number(key, min, max) : fallback;
}
std::string JsonReader::string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? string(key) : std::string(fallback);
}
bool JsonReader::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}

Location JsonReader::location(std::string_view key) const {
  return file_->locate(child_pointer(pointer_, key));
}

void JsonReader::fail(std::string_view message) const {
  throw InputError(file_->locate(pointer_), message);
}

void JsonReader::fail(std::string_view key, std::string_view message) const {
  throw InputError(location(key), message);
}

void JsonReader::fail_expected(std::string_view expected) const {
  fail(fmt::format("expected {}, got {}", expected, describe(*value_)));
}

}  // namespace dovetail
