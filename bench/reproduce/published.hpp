// SPDX-License-Identifier: Apache-2.0
// A published table as data/published has it: what was measured how, the numbers, and how near ours should come.
#pragma once
#include <string>

#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/results/reproduction.hpp"

namespace dovetail::bench {

class PublishedTable {
 public:
  // A name in data/published. Throws InputError with the place of what is wrong.
  PublishedTable(const std::string& id, FilesRead& files);

  const ReproducedTable& table() const { return table_; }                   // ours still empty
  JsonReader settings() const { return JsonReader(file_).at("settings"); }  // for this table's function alone
  // The settings with the options that take this shared constant away.
  JsonFile settings_without(const std::string& constant) const;
  JsonReader values() const { return JsonReader(file_).at("values"); }

 private:
  JsonFile file_;
  ReproducedTable table_;
};

}  // namespace dovetail::bench
