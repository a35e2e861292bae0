// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace dovetail::test {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> odd_numbers{"0",
                                           "-1",
                                           "1",
                                           "2",
                                           "3",
                                           "7",
                                           "64",
                                           "1000",
                                           "65536",
                                           "1048576",
                                           "1e9",
                                           "2147483647",
                                           "2147483648",
                                           "-2147483648",
                                           "4294967296",
                                           "1e18",
                                           "9223372036854775807",
                                           "18446744073709551615",
                                           "1e30",
                                           "1e308",
                                           "-1e308",
                                           "1e-308",
                                           "1e-30",
                                           "0.5",
                                           "1.0000001",
                                           "-0.0",
                                           "5e-324",
                                           "0.999999"};
// As JSON. The last ones are no JSON: a parser must say so.
const std::vector<std::string> odd_others{"\"\"",
                                          "\"nan\"",
                                          "\"inf s\"",
                                          "null",
                                          "true",
                                          "false",
                                          "[]",
                                          "{}",
                                          "[[]]",
                                          "\"0\"",
                                          "\"\\u001b[31mred\"",
                                          "\"=1+1\"",
                                          "\"\\ud83d\\ude00\"",
                                          "\"../x.json\"",
                                          "\"a\\u0000b\"",
                                          "{\"a\": 1}",
                                          "[1, 2, 3]",
                                          "\"-1 us\"",
                                          "NaN",
                                          "-Infinity",
                                          "1e999",
                                          "'x'"};
const std::vector<std::string> odd_units{"s",       "us",      "ps/B", "GB/s", "Gb/s", "GiB",
                                         "TFLOP/s", "fs/flop", "PB",   "",     "B",    "furlongs"};

// Replaced by the text behind it once all else is written.
constexpr std::string_view raw = "@raw:";

Json as_raw(const std::string& text) {
  return std::string(raw) + text;
}

void places_in(Json& value, std::vector<Json*>& places) {
  places.push_back(&value);
  if (value.is_structured())
    for (Json& each : value) places_in(each, places);
}

// "12.5 us" with another number or another unit; any other text with other letters.
Json changed_text(const std::string& text, Dice& dice) {
  const std::size_t space = text.find(' ');
  const bool quantity =
      space != std::string::npos && !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
  if (quantity && dice.one_in(2)) return dice.pick(odd_numbers) + text.substr(space);
  if (quantity) return text.substr(0, space + 1) + dice.pick(odd_units);
  if (dice.one_in(4)) return text + std::string(5000, 'x');
  if (dice.one_in(2) || text.empty()) return as_raw(odd_value(dice));
  std::string changed = text;
  changed[dice.below(changed.size())] = static_cast<char>('a' + dice.below(26));
  return changed;
}

Json changed_number(const Json& value, Dice& dice) {
  if (value.is_number_integer() && dice.one_in(2)) {
    const auto number = value.get<std::int64_t>();
    const auto magnitude = std::min<std::int64_t>(number < 0 ? -number : number, 1'000'000'000);
    const std::vector<std::int64_t> near{magnitude + 1, magnitude - 1, 2 * magnitude,
                                         magnitude / 2, -magnitude,    1000 * magnitude};
    return dice.pick(near);
  }
  return as_raw(dice.pick(odd_numbers));
}

void rename_key(Json& object, Dice& dice) {
  auto& members = object.get_ref<Json::object_t&>();
  const auto member = members.begin() + static_cast<std::ptrdiff_t>(dice.below(members.size()));
  const std::string key = member->first;
  const Json value = member->second;
  std::string name = key;
  if (name.empty() || dice.one_in(2))
    name += "x";
  else
    name.erase(dice.below(name.size()), 1);
  object.erase(key);
  object[name] = value;
}

void change_structure(Json& place, Dice& dice) {
  if (place.empty()) {
    place = as_raw(odd_value(dice));
  } else if (place.is_array()) {
    const std::size_t at = dice.below(place.size());
    const Json element = place[at];
    if (dice.one_in(2))
      place.erase(at);
    else
      for (std::size_t copies = dice.one_in(8) ? 300 : 1; copies > 0; --copies) place.push_back(element);
  } else if (dice.one_in(3)) {
    rename_key(place, dice);
  } else {
    auto& members = place.get_ref<Json::object_t&>();
    const auto member = members.begin() + static_cast<std::ptrdiff_t>(dice.below(members.size()));
    place.erase(std::string(member->first));
  }
}

void change_place(Json& root, Dice& dice) {
  std::vector<Json*> places;
  places_in(root, places);
  Json& place = *dice.pick(places);
  if (dice.one_in(8))
    place = as_raw(odd_value(dice));
  else if (dice.one_in(8))
    place = Json(*dice.pick(places));  // twice, perhaps inside itself
  else if (place.is_structured())
    change_structure(place, dice);
  else if (place.is_string())
    place = changed_text(place.get<std::string>(), dice);
  else if (place.is_number())
    place = changed_number(place, dice);
  else
    place = as_raw(odd_value(dice));
}

// The texts behind the marks, out of their quotes.
std::string without_marks(std::string text) {
  const std::string mark = "\"" + std::string(raw);
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
    std::size_t end = at + mark.size();
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2u : 1u;
    const Json quoted = Json::parse(text.substr(at, end + 1 - at), nullptr, false);
    const std::string behind = quoted.is_string() ? quoted.get<std::string>().substr(raw.size()) : "0";
    text.replace(at, end + 1 - at, behind);
    at += behind.size();
  }
  return text;
}

// The first member of some object once more, with another value.
std::string with_double_key(std::string text, Dice& dice) {
  std::vector<std::size_t> objects;
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '{' && text[i + 1] == '"') objects.push_back(i + 1);
  if (objects.empty()) return text;
  const std::size_t at = dice.pick(objects), end = text.find(':', at);
  if (end == std::string::npos) return text;
  const std::string again = text.substr(at, end - at) + ":" + odd_value(dice) + ",";
  return text.insert(at, again);
}

std::string with_other_bytes(std::string text, Dice& dice) {
  if (text.empty()) return text;
  const std::size_t at = dice.below(text.size());
  switch (dice.below(7)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
      break;
    case 1:
      text.resize(at);
      break;
    case 2:
      text.insert(at, std::string(1, static_cast<char>(dice.below(256))));
      break;
    case 3:
      text.erase(at, 1 + dice.below(20));
      break;
    case 4:
      text.insert(at, std::string(1 + dice.below(2000), dice.one_in(2) ? '[' : '{'));
      break;
    case 5:
      text.insert(at, text.substr(dice.below(text.size()), dice.below(200)));
      break;
    default:
      text.insert(at, "\xff\xc3\x28\xed\xa0\x80");
  }
  return text;
}

// A number of a text that is no JSON, replaced.
std::string with_other_number(std::string text, Dice& dice) {
  std::vector<std::size_t> numbers;
  const auto digit = [&](std::size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (digit(i) && (i == 0 || (!digit(i - 1) && text[i - 1] != '.'))) numbers.push_back(i);
  if (numbers.empty()) return with_other_bytes(std::move(text), dice);
  const std::size_t at = dice.pick(numbers);
  std::size_t end = at;
  while (end < text.size() && (digit(end) || text[end] == '.')) ++end;
  return text.replace(at, end - at, dice.one_in(6) ? "nan" : dice.pick(odd_numbers));
}

std::string with_other_word(std::string text, Dice& dice) {
  const auto words = [&](std::size_t from) { return std::min(text.find_first_of(" \n\t\"<>=,", from), text.size()); };
  const std::size_t first = words(dice.below(text.size() + 1)), second = words(dice.below(text.size() + 1));
  const std::size_t first_end = words(std::min(first + 1, text.size())),
                    second_end = words(std::min(second + 1, text.size()));
  const std::string other = text.substr(second, second_end - second);
  return text.replace(first, first_end - first, dice.one_in(4) ? "" : other);
}

// One of several lines is changed, each of which is JSON.
std::string with_other_line(const std::string& text, Dice& dice) {
  const std::size_t inside = dice.below(text.size());
  const std::size_t begin = inside == 0 ? 0 : text.rfind('\n', inside - 1) + 1;  // npos + 1 is 0
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  return text.substr(0, begin) + mutated(text.substr(begin, end - begin), dice) + text.substr(end);
}

}  // namespace

std::string odd_value(Dice& dice) {
  return dice.one_in(2) ? dice.pick(odd_numbers) : dice.pick(odd_others);
}

std::string mutated(const std::string& text, Dice& dice) {
  const std::size_t changes = dice.one_in(2) ? 1 : 1 + dice.below(3);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (json.is_discarded() && text.starts_with("{\"") && text.find('\n') < text.size() - 1 && !dice.one_in(8))
    return with_other_line(text, dice);
  std::string result = text;
  if (json.is_structured() && !dice.one_in(8)) {
    for (std::size_t i = 0; i < changes; ++i) change_place(json, dice);
    result = without_marks(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return dice.one_in(16) ? with_double_key(std::move(result), dice) : result;
  }
  for (std::size_t i = 0; i < changes; ++i) {
    if (!json.is_structured() && dice.one_in(2))
      result = with_other_number(std::move(result), dice);
    else if (!json.is_structured() && dice.one_in(3))
      result = with_other_word(std::move(result), dice);
    else
      result = with_other_bytes(std::move(result), dice);
  }
  return result;
}

}  // namespace dovetail::test
