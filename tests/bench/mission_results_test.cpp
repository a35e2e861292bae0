// SPDX-License-Identifier: Apache-2.0
// Rows of published tables beside what one GPU has measured. All results here are made up: none was measured.
#include "bench/reproduce/mission_results.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/reproduce/tables.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "reports/data/reproduction_report.hpp"
#include "tests/support/lent_data.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

// A part as the suite keeps it: what was predicted, and a measured step with its interval.
json part(double seconds, double half_interval = 0, double expert_seconds = 0) {
  const json path = {{{"op", "expert"}, {"phase", "forward"}, {"ops", 1}, {"time_s", expert_seconds / 3}},
                     {{"op", "expert"}, {"phase", "backward"}, {"ops", 1}, {"time_s", expert_seconds * 2 / 3}}};
  return {{{"kind", "predicted"}, {"makespan_s", 99}},
          {{"kind", "measured"},
           {"makespan_s", seconds},
           {"ci95_s", {seconds - half_interval, seconds + half_interval}},
           {"critical_path", path},
           {"run", {{"overruns", 0}}}}};
}

json mission(const json& parts) {
  json results;
  for (const auto& [name, each] : parts.items()) results["time-" + name + ".json"] = each;
  return {{"device", "Made-up GPU"}, {"revision", "a test input"}, {"results", results}};
}

MissionResults read(const json& parts) {
  const test::TemporaryFolder folder;
  test::LentData data("validation/none.json");
  std::filesystem::remove("data/validation/gpu");
  std::filesystem::create_directories("data/validation/gpu/made-up");
  std::ofstream("data/validation/gpu/made-up/6-papers-test.json") << mission(parts);
  FilesRead files;
  std::vector<MissionResults> all = read_mission_results(6, files);
  REQUIRE(all.size() == 1);
  CHECK(files.size() == 1);
  CHECK(read_mission_results(7, files).empty());
  return all.front();
}

std::optional<MeasuredValue> measured(json row, const MissionResults& results) {
  row.update({{"value", "v"}, {"what", "w"}});
  const JsonFile file = JsonFile::wrap(row, "row");
  return measured_value(JsonReader(file), results);
}

std::string words(const json& row, const MissionResults& results) {
  return std::get<std::string>(measured(row, results).value().value);
}

}  // namespace

TEST_CASE("What a mission's steps say of a row: ratios, orders, groups, sizes") {
  const MissionResults results =
      read({{"a", part(2, .1, .9)}, {"b", part(4, .1, .3)}, {"c", part(4.1, .2, 0)}, {"d", part(9)}});
  CHECK(std::get<double>(measured({{"ratio", {"b", "a"}}}, results)->value) == Approx(4. / 2));
  CHECK(std::get<double>(measured({{"ratio", {"a", "b"}}, {"ops", {"expert"}}}, results)->value) == Approx(.9 / .3));
  CHECK_FALSE(measured({{"ratio", {"a", "x"}}}, results));  // x was not measured
  CHECK_THROWS_WITH(measured({{"ratio", {"a", "c"}}, {"ops", {"expert"}}}, results), Contains("no such ops"));
  CHECK_THROWS_WITH(measured({}, results), Contains("no quantity"));

  // 4 +- .1 and 4.1 +- .2 overlap; 2 and 9 stand apart.
  CHECK(words({{"order", {{"S1", "c"}, {"S2", "a"}, {"S3", "b"}, {"S4", "d"}}}}, results) == "S2 < S3 ~ S1 < S4");
  CHECK(words({{"fastest", {{"two", {"a", "b"}}, {"other", {"d"}}}}}, results) == "two");
  CHECK(words({{"fastest", {{"one", {"b"}}, {"other", {"c"}}}}}, results) == "neither");
  const json forth = {{"x", "a"}, {"y", "b"}}, alike = {{"x", "b"}, {"y", "c"}}, back = {{"x", "d"}, {"y", "a"}};
  CHECK(words({{"same_order", {forth, alike, forth}}}, results) == "yes");
  CHECK(words({{"same_order", {forth, back}}}, results) == "no");

  // At 10 the fastest is 1 (a before b), at 20 it is 8 (b before d).
  const auto from = [&](int number) {
    return measured({{"first",
                      {{"at_least", number},
                       {"of",
                        {{{"at", 20}, {"parts", {{"8", "b"}, {"1", "d"}}}},
                         {{"at", 10}, {"parts", {{"1", "a"}, {"8", "b"}}}}}}}}},
                    results)
        ->value;
  };
  CHECK(from(1) == TableValue(10.));
  CHECK(from(4) == TableValue(20.));
  CHECK(from(9) == TableValue("never"));
}

TEST_CASE("A table shows what one GPU measured beside ours, and counts none of it") {
  FilesRead files;
  const ReproducedTable before = reproduce_table("tutel-layout", files);
  REQUIRE(before.settled_by);
  CHECK((before.settled_by->mission == 6 && before.settled_by->rows == 1 && before.settled_by->results.empty()));
  CHECK_THAT(reports::describe_settled(before).front(),
             Contains("one GPU can settle 1 of these rows") && Contains("not yet measured"));
  Reproduction reproduction;
  {
    const test::TemporaryFolder folder;
    test::LentData data("validation/none.json");
    std::filesystem::remove("data/validation/gpu");
    std::filesystem::create_directories("data/validation/gpu/made-up");
    std::ofstream("data/validation/gpu/made-up/6-papers-test.json")
        << mission({{"layout-rank_major-1024", part(5, 0, 3.5)}, {"layout-expert_major-1024", part(2, 0, .5)}});
    reproduction.tables = {reproduce_table("tutel-layout", files), reproduce_table("mpipemoe-fig12", files)};
  }
  const ReproducedTable &layout = reproduction.tables[0], &chunks = reproduction.tables[1];
  const ReproducedValue& row = layout.values.back();
  REQUIRE(row.measured.size() == 1);
  CHECK(std::get<double>(row.measured.front().value) == Approx(3.5 / .5));
  CHECK(layout.settled_by->results.front().rows == 1);
  CHECK(chunks.settled_by->results.front().rows == 0);  // none of its parts was measured
  CHECK(count(layout, Verdict::Pass) == count(before, Verdict::Pass));
  CHECK(summarise({{layout}, {}, {}, {}, {}}).front().near.of == summarise({{before}, {}, {}, {}, {}}).front().near.of);

  std::ostringstream text, page, csv;
  reports::write_table(text, reproduction, false);
  reports::write_html(page, reproduction);
  reports::write_csv(csv, reproduction);
  for (const std::string& each : {text.str(), page.str(), csv.str()})
    CHECK_THAT(each, Contains("measured on Made-up GPU, links held: 7"));
  CHECK_THAT(text.str(), Contains("(mission 6 of data/validation/gpu): 1 measured on"));
  const json result = reports::to_json(reproduction);
  CHECK_NOTHROW(validate(JsonFile::wrap(result, "result"), load_schema("reproduction")));
  const json& value = result["tables"][0]["values"].back();
  CHECK((value["settled"] == true && value["measured"][0]["revision"] == "a test input"));
}

TEST_CASE("A table cannot name a row that it does not have") {
  FilesRead files;
  ReproducedTable table;
  const JsonFile file =
      JsonFile::parse(R"({"mission": 6, "rows": [{"value": "none", "what": "w", "ratio": ["a", "b"]}]})", "settled");
  CHECK_THROWS_WITH(settle(JsonReader(file), table, files), Contains("\"none\", expected the name of a value"));
}
