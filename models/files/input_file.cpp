// SPDX-License-Identifier: Apache-2.0
#include "models/files/input_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"
#include "models/files/data_path.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail {
namespace fs = std::filesystem;
namespace {

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// A checkpoint's config.json looks like a model file to its user.
void refuse_checkpoint(const InputKind& kind, const JsonFile& file) {
  const nlohmann::json& root = file.root();
  if (kind.name != model_input.name || !root.is_object() || root.contains("attention")) return;
  if (root.contains("model_type") || root.contains("architectures"))
    throw InputError(file.locate(""), fmt::format("a checkpoint's config.json, not a model file; make one by: dovetail "
                                                  "import {} -o model.json",
                                                  file.name()));
}

}  // namespace

bool is_path(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".csv") || name.find('/') != std::string_view::npos;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

nlohmann::json option_value(const std::string& text) {
  try {
    return JsonFile::parse(text, "").root();
  } catch (const InputError&) {
    return text;
  }
}

std::vector<std::string> known_names(const std::string& kind) {
  std::vector<std::string> names;
  std::error_code missing;  // then there are none
  for (const auto& entry : fs::directory_iterator(data_directory() / kind, missing))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

JsonFile read_input(const InputKind& kind, const std::string& name, FilesRead& files) {
  if (is_path(name)) {
    JsonFile file = JsonFile::read(name);
    files[name] = file.text();
    return file;
  }
  const std::vector<std::string> known = known_names(kind.folder);
  if (std::ranges::find(known, name) == known.end())
    throw InputError(fmt::format("unknown {} {}{} (known: {}; or a path that ends in .json)", kind.name,
                                 in_quotes(name), did_you_mean(name, known), listed(known)));
  JsonFile file = JsonFile::read(data_directory() / kind.folder / (name + ".json"));
  files[fmt::format("data/{}/{}.json", kind.folder, name)] = file.text();
  return file;
}

JsonFile open_input(const InputKind& kind, const std::string& name, const std::vector<Override>& overrides,
                    FilesRead& files) {
  JsonFile file = read_input(kind, name, files);
  refuse_checkpoint(kind, file);
  for (const Override& each : overrides) file.set(each.pointer, option_value(each.value), each.origin);
  shipped_schema(kind.name).validate(file);
  return file;
}

std::string beside(const std::string& file, const std::string& name) {
  if (!is_path(name) || fs::path(name).is_absolute()) return name;
  return (fs::path(file).parent_path() / name).lexically_normal().string();
}

}  // namespace dovetail
