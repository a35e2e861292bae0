// SPDX-License-Identifier: Apache-2.0
// The schemas themselves: well formed, complete, in step with the enumerations of the code and with data/README.md.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/json/json_schema.hpp"
#include "models/base/names.hpp"
#include "models/files/data_path.hpp"
#include "models/files/schema_file.hpp"
#include "models/plan/knob_table.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/calibration_fields.hpp"
#include "models/question/fields.hpp"
#include "tests/support/field_documents.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/knob_documents.hpp"
#include "tests/support/planted_knobs.hpp"

using namespace dovetail;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> input_schemas{
    "cluster",         "model",     "calibration", "system", "plan",      "experiment", "workload",    "trace",
    "validation_grid", "published", "sweep",       "steps",  "framework", "operators",  "parallelism", "event"};

std::vector<std::string> all_schemas() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(data_directory() / "schemas"))
    names.push_back(entry.path().stem().stem().string());
  return names;
}

// Calls `visit` for a schema and each one inside it.
void walk(const json& schema, const std::string& where, const std::function<void(const json&, std::string)>& visit) {
  if (!schema.is_object()) return;
  visit(schema, where);
  for (const char* map : {"properties", "definitions", "patternProperties"})
    if (schema.contains(map))
      for (const auto& [name, each] : schema[map].items()) walk(each, where + "/" + name, visit);
  for (const char* list : {"oneOf", "anyOf", "allOf"})
    if (schema.contains(list))
      for (const json& each : schema[list]) walk(each, where, visit);
  for (const char* single : {"items", "additionalProperties"})
    if (schema.contains(single)) walk(schema[single], where, visit);
}

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  names.reserve(std::size(table));
  for (const auto& [name, value] : table) names.emplace_back(name);
  return names;
}

}  // namespace

TEST_CASE("Schemas use only keywords that are checked, and real types") {
  const std::set<std::string> keywords{"$schema",
                                       "$ref",
                                       "title",
                                       "description",
                                       "definitions",
                                       "type",
                                       "properties",
                                       "items",
                                       "required",
                                       "examples",
                                       "enum",
                                       "const",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "minItems",
                                       "maxItems",
                                       "pattern",
                                       "oneOf",
                                       "anyOf",
                                       "allOf",
                                       "exclusiveMaximum",
                                       "minLength",
                                       "patternProperties",
                                       "additionalProperties"};
  const std::set<std::string> types{"object", "array", "string", "number", "integer", "boolean", "null"};
  for (const std::string& name : all_schemas())
    walk(load_schema(name), name, [&](const json& schema, const std::string& where) {
      INFO(where);
      for (const auto& [keyword, ignored] : schema.items()) {
        INFO(keyword);
        CHECK(keywords.contains(keyword));
      }
      if (!schema.contains("type")) return;
      const json& type = schema["type"];
      for (const json& each : type.is_array() ? type : json::array({type}))
        CHECK(types.contains(each.get<std::string>()));
    });
}

TEST_CASE("Schemas are draft 7 and compile, with all that they refer to") {
  for (const std::string& name : all_schemas()) {
    INFO(name);
    const json schema = load_schema(name);
    CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
    // An InternalError would say that the schema is broken; a wrong type is all there is to find here.
    if (name != "units") CHECK_THROWS_AS(validate(JsonFile::parse("\"x\"", "x"), schema), InputError);
  }
}

TEST_CASE("Every reference leads somewhere") {
  for (const std::string& name : all_schemas()) {
    const json root = load_schema(name);
    walk(root, name, [&](const json& schema, const std::string& where) {
      if (!schema.contains("$ref")) return;
      const std::string reference = schema["$ref"];
      INFO(where << " -> " << reference);
      REQUIRE(reference.starts_with("#/"));
      CHECK(root.contains(json::json_pointer(reference.substr(1))));
    });
  }
}

TEST_CASE("Input schemas refuse unknown keys, describe every field and require only fields they have") {
  for (const std::string& name : input_schemas)
    walk(load_schema(name), name, [&](const json& schema, const std::string& where) {
      INFO(where);
      if (!schema.contains("properties")) return;
      CHECK(schema.value("additionalProperties", json(true)) == json(false));
      for (const auto& [key, property] : schema["properties"].items()) {
        INFO(key);
        CHECK((property.contains("description") || property.contains("$ref")));
      }
      for (const json& key : schema.value("required", json::array()))
        CHECK(schema["properties"].contains(key.get<std::string>()));
    });
}

TEST_CASE("Enumerations in schemas are those of the code") {
  CHECK(load_schema("units")["definitions"]["dtype"]["enum"] == json(names_of(dtype_names)));
}

TEST_CASE("the schema of plans and the lists of knobs in data/README.md are those of the table") {
  CHECK(test::golden_difference("../../data/schemas/plan.schema.json", test::plan_schema(knobs())) == "");
  const std::string readme = JsonFile::read_text(data_directory() / "README.md");
  CHECK(test::golden_difference("../../data/README.md", test::with_knob_lists(readme, knobs(), plan_rules())) == "");
}

TEST_CASE(
    "the schemas of workloads, models, clusters, groups and events, and their fields in data/README.md, are those "
    "of the tables") {
  const auto check = [](const std::string& name, const FieldTable& table) {
    const std::string file = name + ".schema.json";
    const json shipped = json::parse(JsonFile::read_text(data_directory() / "schemas" / file));
    const json definitions = shipped.value("definitions", json::object());
    CHECK(test::golden_difference("../../data/schemas/" + file,
                                  test::field_schema(table, file, definitions.empty() ? "" : definitions.dump())) ==
          "");
  };
  check("workload", fields_of<Workload>());
  check("model", fields_of<Model>());
  check("cluster", fields_of<Cluster>());
  check("parallelism", fields_of<Parallelism>());
  check("event", fields_of<SpeedEvent>());
  check("calibration", fields_of<Calibration>());
  CHECK(test::golden_difference("../../data/schemas/question.schema.json", test::question_schema()) == "");
  const std::string readme = JsonFile::read_text(data_directory() / "README.md");
  CHECK(test::golden_difference("../../data/README.md", test::with_field_tables(readme)) == "");
}

TEST_CASE("documents know a value and a knob that are planted in the table") {
  const std::vector<Knob> table = test::planted_knobs();
  const json schema = json::parse(test::plan_schema(table));
  const auto check = [&](const std::string& text) { validate(JsonFile::parse(text, "plan.json"), schema); };
  CHECK_NOTHROW(check(R"({"planted_knob": 9, "scope": "planted_value"})"));
  CHECK_THROWS_WITH(check(R"({"planted_knob": 10})"), Catch::Contains("/planted_knob"));
  CHECK_THROWS_WITH(check(R"({"scope": "planted"})"), Catch::Contains("planted_value"));
  const json complete = schema["definitions"]["complete"];
  CHECK(complete["required"].back() == "planted_knob");
  CHECK(complete["properties"].contains("planted_knob"));
  const std::string readme = JsonFile::read_text(data_directory() / "README.md");
  const std::string lists = test::with_knob_lists(readme, table, plan_rules());
  CHECK_THAT(lists,
             Catch::Contains("| `planted_knob` | 1 to 9 [1] | arrangement | no | This knob is planted by a test."));
  CHECK_THAT(lists, Catch::Contains("`planted_value` (not built yet): It is planted by a test."));
}

TEST_CASE("data/README.md explains every field of every input file") {
  std::ifstream file(data_directory() / "README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& name : input_schemas)
    walk(load_schema(name), name, [&](const json& schema, const std::string& where) {
      if (!schema.contains("properties")) return;
      for (const auto& [key, property] : schema["properties"].items()) {
        INFO(where << ": " << key);
        CHECK(readme.find("`" + key + "`") != std::string::npos);
      }
    });
}
