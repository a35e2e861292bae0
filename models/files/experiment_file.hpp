// SPDX-License-Identifier: Apache-2.0
// The experiment that a user asked for as one JSON value: the file, the names and the --set options together, so that
// every complaint about a value can say where it came from.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/base/json/json_reader.hpp"
#include "models/files/input_file.hpp"
#include "models/files/load.hpp"

namespace dovetail {

class ExperimentFile {
 public:
  // Throws InputError unless the whole fits the experiment schema.
  ExperimentFile(const ExperimentRequest& request, FilesRead& files);

  const JsonFile& json() const { return json_; }
  JsonReader reader() const { return JsonReader(json_); }

  // The name at `given`; a path that was written in the file is relative to it.
  std::string resolved(const JsonReader& given) const;

  // The file that a part comes from, with the settings that change it there. Empty: it is written out in the
  // experiment.
  std::string source_of(const InputKind& kind, const std::string& fallback) const;

  // Reads a part that is written out in the experiment, or else the file that it names, or else `fallback`. `read` gets
  // a reader and the name of the file it reads, for the paths in it.
  using ReadPart = std::function<void(const JsonReader&, const std::string& file)>;
  void read_part(const InputKind& kind, const std::string& fallback, FilesRead& files, const ReadPart& read) const;

 private:
  void put(const std::string& key, const Override& change);
  std::string name_of_part(const InputKind& kind, const std::string& fallback) const;
  JsonFile open_part(const InputKind& kind, const std::string& fallback, FilesRead& files) const;

  JsonFile json_;
  std::map<std::string, std::vector<Override>> changes_;  // of the files that the experiment names, by kind
};

}  // namespace dovetail
