// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/measured_source.hpp"

#include <filesystem>

#include "models/files/data_path.hpp"

namespace dovetail::bench {

std::string path_of(const InputKind& kind, const std::string& name) {
  return is_path(name) ? name : (data_directory() / kind.folder / (name + ".json")).string();
}

MeasuredSource read_source(const std::string& path, const JsonReader& json) {
  MeasuredSource source;
  source.id = std::filesystem::path(path).stem().string();
  source.title = json.string("title");
  source.source = json.string("source");
  source.licence = json.string_or("licence", "");
  if (const auto notes = json.find("notes"))
    for (const JsonReader& each : notes->elements()) source.notes.push_back(each.string());
  return source;
}

}  // namespace dovetail::bench
