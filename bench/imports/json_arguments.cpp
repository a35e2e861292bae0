// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "bench/imports/config_fields.hpp"
#include "bench/imports/given_run.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"
#include "models/files/import_hf.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 3> argument_keys{"args", "arguments", "argv"};

bool is_scalar(const Json& value) {
  return !value.is_object() && !value.is_array();
}

std::string scalar_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A text that a variable or a configuration's reference leaves open is marked.
std::string marked(const std::string& text) {
  return text.find("${") == std::string::npos ? text : std::string(1, open_mark) + text;
}

void add_object(const JsonFile& file, const Json& object, const std::string& pointer, const std::string& section,
                std::vector<ConfigField>& fields) {
  for (const auto& [key, value] : object.items()) {
    const std::string place = child_pointer(pointer, key);
    if (value.is_null() || key.starts_with('_')) continue;
    if (value.is_object()) {
      add_object(file, value, place, section.empty() ? key : section, fields);
      continue;
    }
    ConfigField field{section, key, {}, {}, file.locate_key(place)};
    if (value.is_boolean()) {
      field.on = value.get<bool>();
    } else if (value.is_array()) {
      for (const Json& each : value) field.values.push_back(is_scalar(each) ? marked(scalar_text(each)) : each.dump());
    } else {
      field.values.push_back(marked(scalar_text(value)));
    }
    fields.push_back(std::move(field));
  }
}

void add_arguments(const JsonFile& file, const Json& value, const std::string& pointer, GivenRun& run) {
  if (value.is_object()) {
    std::vector<ConfigField> fields;
    add_object(file, value, pointer, "", fields);
    run.fields = std::ranges::none_of(fields, [](const ConfigField& field) { return field.key.starts_with("--"); });
    add_fields(std::move(fields), run);
    return;
  }
  std::vector<PlacedWord> words;
  for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
    if (!is_scalar(value[i]))
      throw InputError(file.locate(child_pointer(pointer, i)), "expected an argument or its value, as a string");
    words.push_back({marked(scalar_text(value[i])), file.locate(child_pointer(pointer, i))});
  }
  const std::vector<GivenArgument> arguments = arguments_of(words, run);
  run.arguments.insert(run.arguments.end(), arguments.begin(), arguments.end());
}

const char* argument_key(const Json& object) {
  for (const char* key : argument_keys)
    if (object.is_object() && object.contains(key) && !is_scalar(object[key])) return key;
  return nullptr;
}

std::string entry_name(const Json& entry) {
  for (const char* key : {"name", "test", "id"})
    if (entry.is_object() && entry.contains(key) && entry[key].is_string()) return entry[key].get<std::string>();
  return "";
}

// The place of the list of entries: the whole file, or the first of its keys that holds objects with arguments.
std::string list_pointer(const Json& root) {
  const auto lists = [](const Json& value) {
    return value.is_array() && !value.empty() &&
           std::ranges::all_of(value, [](const Json& e) { return e.is_object(); });
  };
  if (lists(root)) return "";
  if (root.is_object() && argument_key(root) == nullptr)
    for (const auto& [key, value] : root.items())
      if (lists(value) && argument_key(value.front()) != nullptr) return child_pointer("", key);
  return "none";
}

std::size_t chosen_entry(const JsonFile& file, const Json& list, const std::string& pointer, const std::string& entry) {
  const std::string expected = fmt::format(
      "{} lists of arguments stand here; expected --entry NAME, or a number from 1 to {}", list.size(), list.size());
  if (entry.empty() && list.size() == 1) return 0;
  if (entry.empty()) throw InputError(file.locate(pointer), expected);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error == std::errc() && end == entry.data() + entry.size() && number >= 1 && number <= list.size())
    return number - 1;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (entry_name(list[i]) == entry) return i;
    names.push_back(entry_name(list[i]));
  }
  throw InputError(file.locate(pointer),
                   fmt::format("no entry {}{} {}", in_quotes(entry), did_you_mean(entry, names), expected));
}

// An entry may say on how many nodes it ran, and with how many GPUs of each.
void read_entry(const JsonFile& file, const Json& entry, const std::string& pointer, GivenRun& run) {
  const char* const key = argument_key(entry);
  if (key == nullptr) return add_arguments(file, entry, pointer, run);
  const auto size = [&](const char* name) {
    const bool given = entry.contains(name) && entry[name].is_number_integer();
    const auto value = given ? entry[name].get<std::int64_t>() : 0;
    return value > 0 && value <= 1'000'000 ? std::optional(static_cast<int>(value)) : std::nullopt;
  };
  run.nodes = size("nodes");
  run.ranks_a_node = size("gpus_per_node");
  add_arguments(file, entry[key], child_pointer(pointer, key), run);
}

}  // namespace

GivenRun read_json_arguments(const std::string& text, const std::string& name, const std::string& entry) {
  const JsonFile file = JsonFile::parse(without_python_numbers(text), name);
  const Json& root = file.root();
  GivenRun run;
  const std::string pointer = list_pointer(root);
  if (pointer != "none") {
    const Json& list = root.at(Json::json_pointer(pointer));
    const std::size_t chosen = chosen_entry(file, list, pointer, entry);
    const std::string label = entry_name(list[chosen]);
    run.read = fmt::format("entry {} of {}", label.empty() ? std::to_string(chosen + 1) : label, name);
    read_entry(file, list[chosen], child_pointer(pointer, chosen), run);
  } else {
    if (!entry.empty()) throw InputError(file.locate(""), "--entry is given, but this is one list of arguments");
    run.read = fmt::format("the arguments in {}", name);
    read_entry(file, root, "", run);
  }
  if (run.arguments.empty())
    throw InputError(file.locate(""),
                     "no argument of Megatron-LM stands here; expected an object such as {\"num_layers\": 32}, or a "
                     "list of arguments");
  return run;
}

}  // namespace dovetail::bench
