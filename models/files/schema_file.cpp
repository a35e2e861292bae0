// SPDX-License-Identifier: Apache-2.0
#include "models/files/schema_file.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "models/base/json/json_file.hpp"
#include "models/files/data_path.hpp"

namespace dovetail {
namespace {

using JsonValue = nlohmann::json;

constexpr std::string_view suffix = ".schema.json";

JsonValue read_schema(std::string_view name) {
  return JsonFile::read(data_directory() / "schemas" / fmt::format("{}{}", name, suffix)).root();
}

// Makes the references of `node` local to a bundle in which its own schema lies at `self`, and notes the schemas that
// they lead to.
void localize(JsonValue& node, const std::string& self, std::set<std::string>& others) {
  if (!node.is_structured()) return;
  for (JsonValue& child : node) localize(child, self, others);
  const auto found = node.is_object() ? node.find("$ref") : node.end();
  if (found == node.end() || !found->is_string()) return;
  const std::string reference = found->get<std::string>();
  const std::size_t hash = std::min(reference.find('#'), reference.size());
  const std::string inside = reference.substr(std::min(hash + 1, reference.size()));
  if (hash == 0) {
    *found = "#" + self + inside;
    return;
  }
  const std::string file = reference.substr(0, hash);
  check(file.ends_with(suffix), "schema reference to a file of another kind");
  const std::string other = file.substr(0, file.size() - suffix.size());
  others.insert(other);
  *found = "#/definitions/" + other + inside;
}

}  // namespace

JsonValue load_schema(std::string_view name) {
  JsonValue bundle = read_schema(name);
  std::set<std::string> pending;
  localize(bundle, "", pending);
  while (!pending.empty()) {
    const std::string other = pending.extract(pending.begin()).value();
    if (bundle["definitions"].contains(other)) continue;
    JsonValue schema = read_schema(other);
    schema.erase("$schema");
    localize(schema, "/definitions/" + other, pending);
    bundle["definitions"][other] = std::move(schema);
  }
  return bundle;
}

const JsonSchema& shipped_schema(std::string_view name) {
  static std::map<std::string, JsonSchema> kept;
  const std::string key = (data_directory() / name).string();
  const auto found = kept.find(key);
  return found != kept.end() ? found->second : kept.emplace(key, JsonSchema(load_schema(name))).first->second;
}

}  // namespace dovetail
