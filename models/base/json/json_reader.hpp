// SPDX-License-Identifier: Apache-2.0
// A cursor over a JsonFile from which all from-JSON functions read: every wrong value becomes an InputError at its
// place. A cheap copyable view; the JsonFile must outlive it.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/json/json_file.hpp"
#include "models/base/json/quantity.hpp"

namespace dovetail {

enum class Sign { Any, NonNegative, Positive };

class JsonReader {
 public:
  static constexpr int int_max = std::numeric_limits<int>::max();
  static constexpr std::int64_t long_max = std::numeric_limits<std::int64_t>::max();
  static constexpr double number_max = std::numeric_limits<double>::max();

  explicit JsonReader(const JsonFile& file);

  const std::string& pointer() const { return pointer_; }
  const nlohmann::json& value() const { return *value_; }

  // Objects and arrays. `has` is true for an explicit null too. `at` fails where the key is missing.
  bool has(std::string_view key) const;
  JsonReader at(std::string_view key) const;
  std::optional<JsonReader> find(std::string_view key) const;
  std::vector<JsonReader> elements() const;
  std::vector<std::pair<std::string, JsonReader>> members() const;  // in alphabetical order

  // This value as a type. Bounds are inclusive; numbers are finite; a whole number may be written 4.0.
  template <class Q>
  Q quantity(Sign sign = Sign::NonNegative) const;  // a string with unit; the seven types of units.hpp
  int integer(int min = 0, int max = int_max) const;
  std::int64_t long_integer(std::int64_t min = 0, std::int64_t max = long_max) const;
  double number(double min = -number_max, double max = number_max) const;
  std::string string() const;
  bool boolean() const;
  template <class Table>
  auto enumeration(const Table& table) const;  // Table: a range of pair<string_view, Enum>, see names.hpp

  // The value of a key of this object.
  template <class Q>
  Q quantity(std::string_view key, Sign sign = Sign::NonNegative) const {
    return at(key).quantity<Q>(sign);
  }
  int integer(std::string_view key, int min = 0, int max = int_max) const;
  std::int64_t long_integer(std::string_view key, std::int64_t min = 0, std::int64_t max = long_max) const;
  double number(std::string_view key, double min = -number_max, double max = number_max) const;
  std::string string(std::string_view key) const;
  bool boolean(std::string_view key) const;
  template <class Table>
  auto enumeration(std::string_view key, const Table& table) const {
    return at(key).enumeration(table);
  }

  // The same, or the fallback where the key is missing. A value that is there must still be right.
  template <class Q>
  Q quantity_or(std::string_view key, Q fallback, Sign sign = Sign::NonNegative) const {
    return has(key) ? quantity<Q>(key, sign) : fallback;
  }
  int integer_or(std::string_view key, int fallback, int min = 0, int max = int_max) const;
  double number_or(std::string_view key, double fallback, double min = -number_max, double max = number_max) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  template <class Table, class E>
  E enumeration_or(std::string_view key, const Table& table, E fallback) const {
    return has(key) ? enumeration(key, table) : fallback;
  }

  Location location(std::string_view key) const;

  // Throw InputError about this value, or about a key of it. Messages say what is wrong, then what was expected.
  [[noreturn]] void fail(std::string_view message) const;
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  JsonReader(const JsonFile& file, const nlohmann::json& value, std::string pointer);
  [[noreturn]] void fail_expected(std::string_view expected) const;
  void require_object() const;
  const nlohmann::json* child(std::string_view key) const;
  std::size_t choose(const std::vector<std::string>& names) const;

  const JsonFile* file_;
  const nlohmann::json* value_;
  std::string pointer_;
};

template <class Table>
auto JsonReader::enumeration(const Table& table) const {
  std::vector<std::string> names;
  names.reserve(std::size(table));
  for (const auto& [name, value] : table) names.emplace_back(name);
  return std::begin(table)[choose(names)].second;
}

}  // namespace dovetail
