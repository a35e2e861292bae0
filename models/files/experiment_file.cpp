#include "models/files/experiment_file.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/data_path.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail {
namespace {

using JsonValue = nlohmann::json;

const std::vector<const InputKind*> named_parts{&cluster_input, &model_input, &calibration_input};

JsonFile open_experiment(const std::string& path, FilesRead& files) {
  if (path.empty()) return JsonFile::wrap(JsonValue::object(), "");
  JsonFile file = JsonFile::read(path);
  files[path] = file.text();
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

}  // namespace

ExperimentFile::ExperimentFile(const ExperimentRequest& request, FilesRead& files)
    : json_(open_experiment(request.file, files)) {
  const auto name = [&](const InputKind& kind, const std::string& value) {
    if (!value.empty()) json_.set("/" + kind.name, value, fmt::format("--{} {}", kind.name, value));
  };
  name(cluster_input, request.cluster);
  name(model_input, request.model);
  name(calibration_input, request.calibration);
  if (const auto nodes = reader().find("nodes"); nodes && nodes->value().is_number_integer())
    put("cluster", {"/nodes", nodes->value().dump(), json_.name() + ": nodes"});
  for (const std::string& option : request.set) set_option(option);
  if (request.nodes != 0)
    put("cluster", {"/nodes", std::to_string(request.nodes), fmt::format("--nodes {}", request.nodes)});
  if (request.ideal) put("overlap", {"", "ideal", "--ideal"});
  schema_for(json_.root()).validate(json_);
}

void ExperimentFile::set_option(const std::string& option) {
  constexpr std::size_t longest = 80;
  const std::size_t equals = option.find('=');
  const std::string key = option.substr(0, equals);
  const std::string origin = "--set " + (option.size() > longest ? in_quotes(key) : option);
  if (equals == std::string::npos || key.empty())
    throw InputError(Location{origin, 0, 0, ""}, "expected key=value, such as workload.batch=4");
  const std::size_t dot = std::min(key.find('.'), key.size());
  const std::string inside = dot < key.size() ? pointer_of(key.substr(dot + 1)) : "";
  put(key.substr(0, dot), {inside, option.substr(equals + 1), origin});
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

JsonFile ExperimentFile::open_part(const InputKind& kind, const std::string& fallback, FilesRead& files) const {
  const auto given = reader().find(kind.name);
  const std::string name = given ? resolved(*given) : fallback;
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
