// SPDX-License-Identifier: Apache-2.0
#include "models/question/question_fields.hpp"

#include <algorithm>
#include <utility>

#include "models/question/fields.hpp"

namespace dovetail {
namespace {

void add_paths(const std::string& prefix, const FieldTable& table, std::vector<FieldPath>& paths) {
  for (const Field& field : table.fields) {
    if (field.place == FieldPlace::Results) continue;
    const std::string path = prefix + "." + field.name;
    if (const auto* part = std::get_if<PartField>(&field.type))
      add_paths(path, part->table(), paths);
    else
      paths.push_back({path, &table, &field});
  }
}

}  // namespace

const std::vector<FieldPath>& question_fields() {
  static const std::vector<FieldPath> paths = [] {
    std::vector<FieldPath> all;
    for (const auto& [name, table] : {std::pair{"workload", &fields_of<Workload>()},
                                      {"parallelism", &fields_of<Parallelism>()},
                                      {"cluster", &fields_of<Cluster>()},
                                      {"model", &fields_of<Model>()}})
      add_paths(name, *table, all);
    return all;
  }();
  return paths;
}

std::string path_of_field(std::string_view name) {
  const auto found = std::ranges::find(question_fields(), name, [](const FieldPath& each) { return each.field->name; });
  return found == question_fields().end() ? "" : found->path;
}

}  // namespace dovetail
