// SPDX-License-Identifier: Apache-2.0
#include "models/files/experiment_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/data_path.hpp"
#include "models/files/schema_file.hpp"
#include "models/plan/knob_table.hpp"
#include "models/question/question_fields.hpp"

namespace dovetail {
namespace {

using JsonValue = nlohmann::json;

const std::vector<const InputKind*> named_parts{&cluster_input, &model_input, &calibration_input, &framework_input};

JsonFile open_experiment(const std::string& name, FilesRead& files) {
  if (name.empty()) return JsonFile::wrap(JsonValue::object(), "");
  JsonFile file = read_input(experiment_input, name, files);
  validate(file, JsonValue{{"type", "object"}});
  return file;
}

// With each part held to the one of its two forms that was chosen: then messages are about what is wrong in it.
const JsonSchema& schema_for(const JsonValue& experiment) {
  static std::map<std::string, JsonSchema> kept;
  std::string key = data_directory().string();
  for (const InputKind* kind : named_parts)
    if (const auto value = experiment.find(kind->name); value != experiment.end() && value->is_object())
      key += " " + kind->name;
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  JsonValue schema = load_schema("experiment");
  for (const InputKind* kind : named_parts) {
    const auto value = experiment.find(kind->name);
    JsonValue& property = schema["properties"][kind->name];
    if (value != experiment.end() && value->is_object()) property = property["oneOf"][1];
  }
  return kept.emplace(key, JsonSchema(std::move(schema))).first->second;
}

// "workload.batch" -> "/workload/batch"
std::string pointer_of(std::string_view dotted) {
  std::string pointer;
  for (std::size_t first = 0; first <= dotted.size();) {
    const std::size_t dot = std::min(dotted.find('.', first), dotted.size());
    pointer = child_pointer(pointer, dotted.substr(first, dot - first));
    first = dot + 1;
  }
  return pointer;
}

// A value of a part of the experiment, and the key that the user gave it by.
struct Setting {
  std::string key, part;
  Override change;
};

// The parts whose keys users give without them: "did you mean workload.dtype?".
std::string with_its_part(const std::string& key) {
  static const JsonValue schema = load_schema("experiment");
  if (schema["properties"].contains(key) || key.find('.') != std::string::npos) return "";
  const auto is_knob = [&](const Knob& knob) { return knob.name == key; };
  if (std::ranges::any_of(knobs(), is_knob)) return "plan." + key;
  return path_of_field(key);
}

Setting read_setting(const std::string& option, const std::string& written) {
  constexpr std::size_t longest = 80;
  const std::size_t equals = option.find('=');
  const std::string key = option.substr(0, equals), given = written.substr(0, written.find('='));
  const std::string origin = "--set " + (written.size() > longest ? in_quotes(given) : written);
  const auto refuse = [&](const std::string& why) { throw InputError(Location{origin, 0, 0, ""}, why); };
  if (equals == std::string::npos || key.empty()) refuse("expected key=value, such as workload.batch=4");
  if (const std::string meant = with_its_part(key); !meant.empty())
    refuse(fmt::format("unknown key {}, did you mean {}?", in_quotes(key), in_quotes(meant)));
  const std::string value = option.substr(equals + 1);
  if (key == "nodes") return {given, "cluster", {"/nodes", value, origin}};
  const std::size_t dot = std::min(key.find('.'), key.size());
  const std::string inside = dot < key.size() ? pointer_of(key.substr(dot + 1)) : "";
  return {given, key.substr(0, dot), {inside, value, origin}};
}

// The names that options of their own give.
std::vector<Setting> names_of(const ExperimentRequest& request) {
  std::vector<Setting> names;
  for (const auto& [kind, name] : {std::pair{&cluster_input, &request.cluster},
                                   {&model_input, &request.model},
                                   {&calibration_input, &request.calibration}})
    if (!name->empty()) names.push_back({"", kind->name, {"", *name, fmt::format("--{} {}", kind->name, *name)}});
  return names;
}

std::vector<Setting> settings_of(const ExperimentRequest& request) {
  std::vector<Setting> settings;
  for (const std::string& option : request.set) settings.push_back(read_setting(option, request.as_written(option)));
  if (const int nodes = request.nodes; nodes != 0)
    settings.push_back({"", "cluster", {"/nodes", std::to_string(nodes), fmt::format("--nodes {}", nodes)}});
  if (request.ideal) settings.push_back({"", "overlap", {"", "ideal", "--ideal"}});
  return settings;
}

}  // namespace

void require_agreement(const ExperimentRequest& request) {
  std::vector<Setting> all = names_of(request), settings = settings_of(request);
  all.insert(all.end(), settings.begin(), settings.end());
  for (auto later = all.begin(); later != all.end(); ++later)
    for (auto s = all.begin(); s != later; ++s)
      if (s->part == later->part && s->change.pointer == later->change.pointer && s->key != later->key &&
          option_value(s->change.value) != option_value(later->change.value))
        throw InputError(fmt::format("{} contradicts {}", later->change.origin, s->change.origin));
}

ExperimentFile::ExperimentFile(const ExperimentRequest& request, FilesRead& files)
    : json_(open_experiment(request.file, files)) {
  require_agreement(request);
  for (const Setting& name : names_of(request)) json_.set("/" + name.part, name.change.value, name.change.origin);
  if (const auto nodes = reader().find("nodes"); nodes && nodes->value().is_number_integer())
    put("cluster", {"/nodes", nodes->value().dump(), json_.name() + ": nodes"});
  for (const Setting& setting : settings_of(request)) put(setting.part, setting.change);
  schema_for(json_.root()).validate(json_);
}

// A change inside a part goes into the file that the experiment names, unless the part is written out here.
void ExperimentFile::put(const std::string& key, const Override& change) {
  const bool names_file = std::ranges::any_of(named_parts, [&](const InputKind* kind) { return kind->name == key; }) &&
                          !(json_.root().contains(key) && json_.root()[key].is_object());
  if (names_file && !change.pointer.empty())
    changes_[key].push_back(change);
  else
    json_.set(child_pointer("", key) + change.pointer, option_value(change.value), change.origin);
}

void ExperimentFile::read_part(const InputKind& kind, const std::string& fallback, FilesRead& files,
                               const ReadPart& read) const {
  if (const auto here = reader().find(kind.name); here && here->value().is_object()) return read(*here, json_.name());
  const JsonFile file = open_part(kind, fallback, files);
  read(JsonReader(file), file.name());
}

std::string ExperimentFile::resolved(const JsonReader& given) const {
  const bool in_file = json_.locate(given.pointer()).file == json_.name();
  return in_file ? beside(json_.name(), given.string()) : given.string();
}

std::string ExperimentFile::name_of_part(const InputKind& kind, const std::string& fallback) const {
  const auto given = reader().find(kind.name);
  return given ? resolved(*given) : fallback;
}

std::string ExperimentFile::source_of(const InputKind& kind, const std::string& fallback) const {
  if (const auto here = reader().find(kind.name); here && here->value().is_object()) return "";
  std::string source = name_of_part(kind, fallback);
  if (const auto changes = changes_.find(kind.name); changes != changes_.end())
    for (const Override& each : changes->second) source += fmt::format("\n{}={}", each.pointer, each.value);
  return source;
}

JsonFile ExperimentFile::open_part(const InputKind& kind, const std::string& fallback, FilesRead& files) const {
  const auto given = reader().find(kind.name);
  const std::string name = name_of_part(kind, fallback);
  if (name.empty())
    reader().fail(fmt::format("no {} given, expected one of {} or a path that ends in .json", kind.name,
                              fmt::join(known_names(kind.folder), ", ")));
  const auto changes = changes_.find(kind.name);
  const auto open = [&] {
    return open_input(kind, name, changes == changes_.end() ? std::vector<Override>{} : changes->second, files);
  };
  return given ? at_place_of(*given, open) : open();
}

}  // namespace dovetail
