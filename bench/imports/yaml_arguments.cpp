// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <string_view>

#include "bench/imports/config_fields.hpp"
#include "bench/imports/given_run.hpp"

namespace dovetail::bench {
namespace {

constexpr int deepest_node = 50, most_nodes = 100'000;  // a file of references may stand for far more than it has

Location place_of(const YAML::Mark& mark, const std::string& name) {
  return {.file = name, .line = std::max(mark.line + 1, 1), .column = std::max(mark.column + 1, 1), .pointer = {}};
}

bool is_environment(std::string_view key) {
  return std::ranges::all_of(key, [](char c) { return c == '_' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); });
}

std::optional<bool> switch_of(const YAML::Node& node) {
  if (node.Tag() == "!") return {};  // in quotes
  const std::string& text = node.Scalar();
  for (const std::string_view on : {"true", "True", "TRUE"})
    if (text == on) return true;
  for (const std::string_view off : {"false", "False", "FALSE"})
    if (text == off) return false;
  return {};
}

class YamlFields {
 public:
  YamlFields(const std::string& name, const Variables& variables, GivenRun& run)
      : name_(name), variables_(variables), run_(run) {}

  void read(const YAML::Node& map, const std::string& section, int depth) {
    for (const auto& each : map) {
      if (!each.first.IsScalar()) fail(each.first, "expected the name of an argument or a field");
      count(each.first, depth);
      const std::string key = each.first.Scalar();
      if (key == "_target_" && each.second.IsScalar()) note_class(each.second);
      if (key.starts_with('_') || each.second.IsNull()) continue;
      if (each.second.IsMap())
        read(each.second, section.empty() ? key : section, depth + 1);
      else if (!is_environment(key))
        fields_.push_back(field(section, key, each.first, each.second));
    }
  }

  std::vector<ConfigField> take() { return std::move(fields_); }

 private:
  [[noreturn]] void fail(const YAML::Node& node, std::string_view message) const {
    throw InputError(place_of(node.Mark(), name_), message);
  }

  void count(const YAML::Node& node, int depth) {
    if (depth > deepest_node || ++nodes_ > most_nodes)
      fail(node, "more is nested here than a configuration could have");
  }

  void note_class(const YAML::Node& node) {
    const Location where = place_of(node.Mark(), name_);
    run_.notes.push_back(
        fmt::format("{}:{}:{}: the defaults of {} are not known; what this file leaves out has those "
                    "of Megatron-LM",
                    where.file, where.line, where.column, node.Scalar()));
  }

  // A reference to a variable is that variable where it is given.
  std::string text_of(const YAML::Node& node) const {
    std::string text = node.Scalar();
    if (text.find("${") == std::string::npos) return text;
    if (text.starts_with("${") && text.ends_with('}'))
      if (const auto given = variables_.find(text.substr(2, text.size() - 3)); given != variables_.end())
        return given->second;
    return std::string(1, open_mark) + text;
  }

  ConfigField field(const std::string& section, const std::string& key, const YAML::Node& at, const YAML::Node& value) {
    ConfigField field{section, key, {}, {}, place_of(at.Mark(), name_)};
    if (value.IsSequence()) {
      for (const YAML::Node& each : value) {
        count(each, 0);
        field.values.push_back(each.IsScalar() ? text_of(each) : "[...]");
      }
    } else {
      field.on = switch_of(value);
      if (!field.on) field.values.push_back(text_of(value));
    }
    return field;
  }

  const std::string& name_;
  const Variables& variables_;
  GivenRun& run_;
  std::vector<ConfigField> fields_;
  int nodes_ = 0;
};

YAML::Node parsed(const std::string& text, const std::string& name) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InputError(place_of(error.mark, name), error.msg);
  }
}

}  // namespace

GivenRun read_yaml_arguments(const std::string& text, const std::string& name, const Variables& variables) {
  const YAML::Node root = parsed(text, name);
  GivenRun run;
  YamlFields fields(name, variables, run);
  try {
    if (root.IsMap()) fields.read(root, "", 0);
  } catch (const YAML::Exception& error) {
    throw InputError(place_of(error.mark, name), error.msg);
  }
  std::vector<ConfigField> all = fields.take();
  run.fields = std::ranges::none_of(all, [](const ConfigField& field) { return field.key.starts_with("--"); });
  add_fields(std::move(all), run);
  run.read = fmt::format("the fields in {}", name);
  if (run.arguments.empty())
    throw InputError({.file = name, .line = 1, .column = 1, .pointer = {}},
                     "no field of Megatron-LM stands here; expected names and values such as num_layers: 32");
  return run;
}

}  // namespace dovetail::bench
