// SPDX-License-Identifier: Apache-2.0
#include "models/files/load_program.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/errors.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_file.hpp"
#include "models/files/input_file.hpp"
#include "models/plan/program_text.hpp"

namespace dovetail {
namespace {

using Ranks = std::vector<std::vector<Slot>>;

Ranks read_file(const std::string& path) {
  const std::string text = JsonFile::read_text(path);
  Ranks ranks;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (const std::size_t first = line.find_first_not_of(" \t"); first == std::string_view::npos || line[first] == '#')
      continue;
    try {
      ranks.push_back(read_slots(line));
    } catch (const SlotError& error) {
      throw InputError({path, number, static_cast<int>(error.offset) + 1, ""}, error.message);
    }
  }
  return ranks;
}

Ranks read_lines(const JsonReader& json) {
  Ranks ranks;
  for (const JsonReader& line : json.elements()) {
    try {
      ranks.push_back(read_slots(line.string()));
    } catch (const SlotError& error) {
      line.fail(error.message);
    }
  }
  return ranks;
}

}  // namespace

ListedProgram read_program(const JsonReader& object, std::string_view key) {
  const JsonReader json = object.at(key);
  if (json.value().is_array() && json.value().empty()) return {};
  return at_place_of(json, [&] {
    if (json.value().is_array()) return ListedProgram(read_lines(json));
    const Location given = object.location(key);
    const std::string path = given.line > 0 ? beside(given.file, json.string()) : json.string();
    Ranks ranks = read_file(path);
    try {
      return ListedProgram(std::move(ranks));
    } catch (const InputError& error) {
      throw InputError({path, 0, 0, ""}, error.message());
    }
  });
}

}  // namespace dovetail
