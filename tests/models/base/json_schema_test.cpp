// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_schema.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace dovetail;
using nlohmann::json;

namespace {

const json cluster_schema = json::parse(R"({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "definitions": {
    "bandwidth": {"type": "string", "pattern": "/s$", "examples": ["200 Gb/s"]},
    "device": {
      "type": "object", "additionalProperties": false, "required": ["name"],
      "properties": {"name": {"type": "string", "minLength": 1}, "bandwidth": {"$ref": "#/definitions/bandwidth"}}
    },
    "count": {"type": "integer", "minimum": 1, "maximum": 1000}
  },
  "type": "object", "additionalProperties": false, "required": ["nodes", "device"],
  "properties": {
    "nodes": {"$ref": "#/definitions/count"},
    "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "device": {"$ref": "#/definitions/device"},
    "link": {"enum": ["pcie", "nvlink", "nvswitch"]},
    "version": {"const": "1.0"},
    "limit": {"type": ["number", "null"]},
    "sizes": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"$ref": "#/definitions/count"}},
    "rates": {"type": "object", "additionalProperties": {"$ref": "#/definitions/bandwidth"}},
    "routing": {"oneOf": [
      {"type": "object", "additionalProperties": false, "required": ["kind"], "properties": {"kind": {"const": "uniform"}}},
      {"type": "object", "additionalProperties": false, "required": ["kind", "exponent"],
       "properties": {"kind": {"const": "zipf"}, "exponent": {"type": "number"}}}
    ]},
    "degree": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    "unique": {"type": "array", "uniqueItems": true},
    "children": {"type": "array", "items": {"$ref": "#"}}
  }
})");

std::string verdict(const std::string& text) {
  try {
    validate(JsonFile::parse(text, "f"), cluster_schema);
  } catch (const InputError& error) {
    return error.what();
  }
  return "valid";
}

std::string with(const std::string& more) {
  return R"({"nodes": 2, "device": {"name": "x"}, )" + more + "}";
}

}  // namespace

TEST_CASE("A file that fits passes") {
  CHECK(verdict(R"({"nodes": 2, "device": {"name": "x"}})") == "valid");
  for (const char* more : {R"("share": 0.5)", R"("link": "pcie")", R"("version": "1.0")", R"("limit": null)",
                           R"("limit": 2)", R"("sizes": [1, 2])", R"("rates": {"a": "1 GB/s"})",
                           R"("routing": {"kind": "zipf", "exponent": 1})", R"("degree": [1, 2])", R"("degree": 3)",
                           R"("unique": [1, 2])", R"("children": [{"nodes": 1, "device": {"name": "y"}}])"}) {
    INFO(more);
    CHECK(verdict(with(more)) == "valid");
  }
}

TEST_CASE("The problem is named in plain words at its place") {
  struct Case {
    std::string text, message;
  };
  const std::vector<Case> cases{
      {"{\n  \"nodez\": 2,\n  \"device\": {\"name\": \"x\"}}",
       "f:2:3: /nodez: unknown key \"nodez\", did you mean \"nodes\"?"},
      {R"({"nodes": "x", "device": {"name": 1, "bandwith": 2}})",
       "f:1:38: /device/bandwith: unknown key \"bandwith\", did you mean \"bandwidth\"?"},
      {R"({"nodes": 2, "device": {"name": "x", "colour": 2}})",
       "f:1:38: /device/colour: unknown key \"colour\", expected bandwidth or name"},
      {R"({"nodes": 2})", "f:1:1: missing key \"device\", expected an object"},
      {R"({"device": {"name": "x"}})", "f:1:1: missing key \"nodes\", expected a whole number"},
      {R"({"nodes": 2, "device": {}})", "f:1:24: /device: missing key \"name\", expected a string"},
      {R"({"nodes": "x", "device": {"name": "x"}})", "f:1:11: /nodes: expected a whole number, got the string \"x\""},
      {R"({"nodes": 2.5, "device": {"name": "x"}})", "f:1:11: /nodes: expected a whole number, got the number 2.5"},
      {R"({"nodes": 0, "device": {"name": "x"}})", "f:1:11: /nodes: expected at least 1, got 0"},
      {R"({"nodes": 1001, "device": {"name": "x"}})", "f:1:11: /nodes: expected at most 1000, got 1001"},
      {R"({"nodes": 0, "device": {"name": 1}})", "f:1:33: /device/name: expected a string, got the number 1"},
      {"[]", "f:1:1: expected an object, got an empty array"},
      {R"({"nodes": 2, "device": {"name": ""}})", "f:1:33: /device/name: expected text, got \"\""},
      {R"({"nodes": 2, "device": {"name": "x", "bandwidth": 200}})",
       "f:1:51: /device/bandwidth: expected a string such as \"200 Gb/s\", got the number 200"},
      {R"({"nodes": 2, "device": {"name": "x", "bandwidth": "200 Gb"}})",
       "f:1:51: /device/bandwidth: expected a string such as \"200 Gb/s\", got \"200 Gb\""},
      {with(R"("share": 0)"), "f:1:48: /share: expected more than 0, got 0"},
      {with(R"("share": 1)"), "f:1:48: /share: expected less than 1, got 1"},
      {with(R"("link": "nvlinc")"),
       "f:1:47: /link: expected \"pcie\", \"nvlink\" or \"nvswitch\", got the string \"nvlinc\", did you mean "
       "\"nvlink\"?"},
      {with(R"("version": "2.0")"), "f:1:50: /version: expected \"1.0\", got the string \"2.0\""},
      {with(R"("limit": "x")"), "f:1:48: /limit: expected a number or null, got the string \"x\""},
      {with(R"("sizes": [])"), "f:1:48: /sizes: expected at least 1 elements, got 0"},
      {with(R"("sizes": [1, 0])"), "f:1:52: /sizes/1: expected at least 1, got 0"},
      {with(R"("rates": {"a": 1})"), "f:1:54: /rates/a: expected a string such as \"200 Gb/s\", got the number 1"},
      {with(R"("routing": {"kind": "zip"})"),
       "f:1:59: /routing/kind: expected \"uniform\" or \"zipf\", got the string \"zip\""},
      {with(R"("routing": {"kind": "zipf"})"), "f:1:50: /routing: missing key \"exponent\", expected a number"},
      {with(R"("routing": {"kind": "zipf", "exponent": 1, "x": 1})"),
       "f:1:82: /routing/x: unknown key \"x\", expected exponent or kind"},
      {with(R"("routing": 3)"), "f:1:50: /routing: expected an object, got the number 3"},
      {with(R"("degree": "x")"), "f:1:49: /degree: expected a whole number or an array, got the string \"x\""},
      {with(R"("degree": [1, "x"])"), "f:1:53: /degree/1: expected a whole number, got the string \"x\""},
      {with(R"("children": [{"nodez": 1}])"),
       "f:1:53: /children/0/nodez: unknown key \"nodez\", did you mean \"nodes\"?"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    CHECK(verdict(text) == message);
  }
}

TEST_CASE("Keywords only the validator knows are still enforced, without its path syntax") {
  const std::string message = verdict(with(R"("unique": [1, 1])"));
  CHECK_THAT(message, Catch::StartsWith("f:1:49: /unique: does not fit the schema: "));
  CHECK(message.find("<root>") == std::string::npos);
}

TEST_CASE("A value set from outside is blamed on its origin") {
  JsonFile file = JsonFile::parse(R"({"nodes": 2, "device": {"name": "x"}})", "f");
  file.set("/shre", 0.5, "--set shre");
  CHECK_THROWS_WITH(validate(file, cluster_schema), "--set shre: unknown key \"shre\", did you mean \"share\"?");
}

TEST_CASE("A long text cannot exhaust the regular expression") {
  const std::string text =
      R"({"nodes": 2, "device": {"name": "x", "bandwidth": ")" + std::string(1'000'000, '/') + "\"}}";
  CHECK(verdict(text).size() < 200);
}

TEST_CASE("Thousands of problems give one") {
  std::string text = R"({"nodes": 2, "device": {"name": "x"}, "children": [0)";
  for (int i = 0; i < 100'000; ++i) text += ",0";
  CHECK(verdict(text + "]}") == "f:1:52: /children/0: expected an object, got the number 0");
}

TEST_CASE("A broken schema is our bug, not the user's") {
  const JsonFile file = JsonFile::parse("{}", "f");
  CHECK_THROWS_AS(validate(file, json{{"$ref", "#/none"}}), InternalError);
  CHECK_THROWS_AS(validate(file, json{{"$ref", "#"}}), InternalError);
  CHECK_THROWS_AS(validate(file, json{{"required", 3}, {"type", "text"}}), std::exception);
}
