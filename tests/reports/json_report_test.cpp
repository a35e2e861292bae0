// SPDX-License-Identifier: Apache-2.0
#include "reports/answer/json_report.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/json/json_schema.hpp"
#include "models/files/plan_json.hpp"
#include "models/files/schema_file.hpp"
#include "tests/reports/sample_reports.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

std::string json_text(const Report& report) {
  std::ostringstream out;
  reports::write_json(out, report);
  return out.str();
}

nlohmann::json schema() {
  return load_schema("result");
}

void check_valid(const Report& report) {
  const std::string text = json_text(report);
  CHECK_NOTHROW(validate(JsonFile::parse(text, "result"), schema()));
}

// Every object of the schema that describes properties must refuse others and describe each of its own.
void check_closed(const nlohmann::json& node) {
  if (node.is_array())
    for (const auto& item : node) check_closed(item);
  if (!node.is_object()) return;
  if (node.contains("properties")) {
    INFO(node.dump());
    CHECK(node.value("additionalProperties", true) == false);
    CHECK(node.contains("required"));
    for (const auto& [name, property] : node["properties"].items()) {
      INFO(name);
      CHECK((property.contains("description") || property.contains("$ref")));
    }
  }
  for (const auto& item : node) check_closed(item);
}

}  // namespace

TEST_CASE("result files, as approved") {
  CHECK(test::golden_difference("reports/compare.json", json_text(test::small_report())) == "");
  CHECK(test::golden_difference("reports/run.json", json_text(test::small_run_report())) == "");
}

TEST_CASE("every result file follows the published schema") {
  check_valid(test::small_report());
  check_valid(test::small_run_report());
  check_valid(test::mixtral_report());
}

TEST_CASE("the schema is closed and says what everything is") {
  nlohmann::json own = schema();
  own["definitions"].erase("plan");  // its required knobs are in a definition of it
  check_closed(own);
}

TEST_CASE("the schema refuses what we never write") {
  auto json = nlohmann::json::parse(json_text(test::small_report()));
  json["results"][0]["makespan"] = 1;
  CHECK_THROWS_WITH(validate(JsonFile::wrap(json, "result"), schema()), Contains("makespan"));
  json["results"][0].erase("makespan");
  json["results"][0]["kind"] = "guessed";
  CHECK_THROWS_WITH(validate(JsonFile::wrap(json, "result"), schema()), Contains("guessed"));
}

TEST_CASE("the same report gives the same bytes and numbers survive the way through text") {
  Report report = test::mixtral_report();
  CHECK(json_text(report) == json_text(report));
  report.results[0].metrics.makespan = Seconds(0.1 + 0.2);
  const auto json = nlohmann::json::parse(json_text(report));
  CHECK(json["results"][0]["makespan_s"].get<double>() == 0.1 + 0.2);
}

TEST_CASE("numbers that are not finite are never written") {
  Report report = test::small_report();
  report.results[0].lower_bound = Seconds(std::numeric_limits<double>::quiet_NaN());
  report.results[0].metrics.exposed_communication = Seconds(std::numeric_limits<double>::infinity());
  const std::string text = json_text(report);
  CHECK_THAT(text, !Contains(": nan") && !Contains(": inf"));
  CHECK(nlohmann::json::parse(text)["results"][0]["lower_bound_s"].is_null());
  check_valid(report);
}

TEST_CASE("names with invalid UTF-8 are written with replacement characters") {
  Report report = test::small_report();
  report.results[0].system = "a\xff";
  CHECK(nlohmann::json::parse(json_text(report))["results"][0]["system"] == "a\ufffd");
}

TEST_CASE("what does not apply is null") {
  Report report = test::small_report();
  report.results[0].plan.scope = Scope::Batch;
  const auto json = nlohmann::json::parse(json_text(report));
  for (const char* key : {"forward_s", "backward_s", "ci95_s", "samples_s", "run", "missing_bytes"})
    CHECK(json["results"][0][key].is_null());
  CHECK(json["results"][2]["missing_bytes"].is_number());
  check_valid(report);
}

TEST_CASE("a plan is written with every knob by the name that files use") {
  Plan plan;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  plan.gradient_slices = {{Window::Dense, 3, 17}};
  const auto json = to_json(plan);
  CHECK(json["pipeline_schedule"] == "1f1b");
  CHECK(json["gradient_slices"].dump() == R"([{"window":"dense","layer":3,"elements":17}])");
}
