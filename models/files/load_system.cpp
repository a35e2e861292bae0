// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/errors.hpp"
#include "models/files/input_file.hpp"
#include "models/files/load_program.hpp"
#include "models/files/plan_json.hpp"
#include "models/files/read_parts.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail {
namespace {

GradientSlice read_slice(const JsonReader& json) {
  return {json.enumeration("window", window_names), json.integer_or("layer", 0), json.long_integer("elements", 1)};
}

// Sets the value of one knob that is given.
struct ValueReader {
  std::string_view key;
  const JsonReader& json;
  Plan& plan;

  void operator()(const ChoiceKnob& choice) const {
    std::vector<std::pair<std::string_view, int>> names;
    for (const KnobValue& value : choice.values()) names.emplace_back(value.name, value.value);
    choice.set(plan, json.enumeration(key, names));
  }
  void operator()(const FlagKnob& flag) const { plan.*flag.member = json.boolean(key); }
  void operator()(const CountKnob& count) const { plan.*count.member = json.integer(key); }
  void operator()(const BytesKnob& bytes) const { plan.*bytes.member = json.long_integer(key, 1); }
  void operator()(const CountsKnob& list) const {
    plan.*list.member = read_list<int>([&](const JsonReader& each) { return each.integer(list.least); });
  }
  void operator()(const SlicesKnob& list) const { plan.*list.member = read_list<GradientSlice>(read_slice); }
  void operator()(const ProgramKnob& program) const { plan.*program.member = read_program(json, key); }
  void operator()(const SetKnob& set) const {
    std::vector<std::pair<std::string_view, std::uint32_t>> names;
    for (const KnobValue& value : set.values()) names.emplace_back(value.name, std::uint32_t{1} << value.value);
    std::uint32_t bits = 0;
    if (json.at(key).value().is_array()) {
      for (const JsonReader& each : json.at(key).elements()) bits |= each.enumeration(names);
    } else {
      names.emplace_back(no_values, 0);
      bits = json.enumeration(key, names);
    }
    set.set(plan, bits);
  }

 private:
  template <class T, class Read>
  std::vector<T> read_list(Read read) const {
    std::vector<T> list;
    for (const JsonReader& each : json.at(key).elements()) list.push_back(read(each));
    return list;
  }
};

void read_sequence_parallel(const JsonReader& json, System& system) {
  if (json.has(sequence_parallel_key)) system.sequence_parallel = json.boolean(sequence_parallel_key);
}

const SystemRule* read_rule(const JsonReader& json) {
  std::vector<std::pair<std::string_view, const SystemRule*>> names;
  for (const SystemRule& rule : system_rules()) names.emplace_back(rule.name, &rule);
  return json.enumeration(names);
}

// Beside its knobs, a plan file says what a system says beside its plan.
JsonSchema plan_file_schema() {
  nlohmann::json schema = load_schema("plan");
  schema["properties"][sequence_parallel_key] = load_schema("system")["properties"][sequence_parallel_key];
  return JsonSchema(std::move(schema));
}

}  // namespace

void read_plan(const JsonReader& json, Plan& plan, std::span<const Knob> table) {
  for (const Knob& knob : table)
    if (json.has(knob.name)) std::visit(ValueReader{knob.name, json, plan}, knob.type);
}

// Every combination of one fragment of a plan from each list, put over `plan`; the first ones first.
std::vector<Plan> read_alternatives(const JsonReader& lists, const Plan& plan) {
  std::vector<Plan> plans{plan};
  for (const JsonReader& list : lists.elements()) {
    std::vector<Plan> more;
    for (const Plan& before : plans)
      for (const JsonReader& fragment : list.elements()) read_plan(fragment, more.emplace_back(before));
    plans = std::move(more);
  }
  return plans;
}

System read_system(const JsonReader& json) {
  System system;
  system.name = json.string("name");
  system.description = json.string_or("description", "");
  system.source = json.string_or("source", "");
  read_plan(json.at("plan"), system.plan);
  read_sequence_parallel(json, system);
  system.gathers_again = json.boolean_or("gathers_again", false);
  const JsonReader planner = json.at("planner");
  system.planner.name = planner.string("name");
  system.planner.tie_degrees = planner.boolean_or("tie_degrees", true);
  system.planner.space = planner.enumeration_or("space", search_space_names, system.planner.space);
  if (const auto schedules = planner.find("pipeline_schedules"))
    for (const JsonReader& each : schedules->elements())
      system.planner.pipeline_schedules.push_back(each.enumeration(pipeline_schedule_names));
  if (const auto rules = json.find("rules"))
    for (const JsonReader& each : rules->elements()) system.planner.rules.push_back(read_rule(each));
  if (const auto lists = planner.find("alternatives"))
    system.planner.alternatives = read_alternatives(*lists, system.plan);
  if (planner.has("degrees")) {
    system.planner.degrees.clear();
    for (const JsonReader& each : planner.at("degrees").elements()) system.planner.degrees.push_back(each.integer(1));
  }
  return system;
}

System load_system(const std::string& name, FilesRead& files) {
  return read_system(JsonReader(open_input(system_input, name, {}, files)));
}

void set_knobs(const std::vector<std::string>& settings, std::string_view option, Plan& plan) {
  constexpr std::string_view part = "plan.";
  JsonFile file = JsonFile::wrap(nlohmann::json::object(), std::string(option));
  for (const std::string& setting : settings) {
    const std::string origin = fmt::format("{} {}", option, setting);
    const std::size_t equals = setting.find('=');
    if (!setting.starts_with(part) || equals == std::string::npos || equals == part.size())
      throw InputError(Location{origin, 0, 0, ""}, "expected plan.KNOB=VALUE, such as plan.forward_degree=2");
    file.set("/" + setting.substr(part.size(), equals - part.size()), option_value(setting.substr(equals + 1)), origin);
  }
  JsonSchema(load_schema("plan")).validate(file);
  read_plan(JsonReader(file), plan);
}

System load_plan(const std::string& path, FilesRead& files) {
  const JsonFile file = JsonFile::read(path);
  files[path] = file.text();
  plan_file_schema().validate(file);
  System system;
  system.name = std::filesystem::path(path).stem().string();
  read_plan(JsonReader(file), system.plan);
  read_sequence_parallel(JsonReader(file), system);
  return system;
}

}  // namespace dovetail
