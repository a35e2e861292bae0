// SPDX-License-Identifier: Apache-2.0
// Published tables: files, functions and results fit one another.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/reproduce/published.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/data_path.hpp"
#include "models/files/schema_file.hpp"
#include "reports/data/reproduction_report.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

Reproduction cheap_tables() {
  FilesRead files;
  Reproduction reproduction;
  for (const char* id : {"ampipe-appendix-c", "fsmoe-table2"})
    reproduction.tables.push_back(reproduce_table(id, files));
  return reproduction;
}

}  // namespace

TEST_CASE("every published table has a function and every function its table") {
  const std::vector<std::string> ids = reproduced_ids(), names = known_names("published");
  CHECK(std::set(ids.begin(), ids.end()) == std::set(names.begin(), names.end()));
  FilesRead files;
  for (const std::string& id : ids) {
    INFO(id);
    const PublishedTable published(id, files);
    CHECK(published.table().id == id);
    CHECK(published.settings().value().is_object());
    // A constant that is listed as fitted is used by some value and lies in a file of the project.
    std::set<std::string> used;
    for (const ReproducedValue& value : published.table().values)
      if (value.basis == Basis::Fitted) used.insert(value.constants.begin(), value.constants.end());
    for (const FittedConstant& constant : published.table().fitted) {
      INFO(constant.name);
      CHECK(used.contains(constant.name));
      CHECK(std::filesystem::exists(data_directory().parent_path() / constant.file));
    }
  }
}

TEST_CASE("an unknown table is refused with the nearest") {
  FilesRead files;
  CHECK_THROWS_WITH(reproduce_table("fsmoe-table1", files), Contains("did you mean \"fsmoe-table"));
}

TEST_CASE("AMPipe's formula: exact at two chunks, an upper bound beyond, too low at one") {
  FilesRead files;
  const ReproducedTable table = reproduce_table("ampipe-appendix-c", files);
  CHECK(count(table, Verdict::Miss) == 0);
  CHECK(count(table, Verdict::Pass) == 5);
  CHECK(std::get<double>(table.values.front().ours) < 1);  // p = 1
}

TEST_CASE("results as JSON follow the schema") {
  const auto json = nlohmann::json(reports::to_json(cheap_tables()));
  CHECK_NOTHROW(validate(JsonFile::wrap(json, "result"), load_schema("reproduction")));
  CHECK(json["tables"][1]["id"] == "fsmoe-table2");
  const auto& value = json["tables"][1]["values"][0];
  CHECK(value["basis"] == "predicted");
  CHECK(value["constants"].empty());
  CHECK(value["measure"] == "amount");
  auto broken = json;
  broken["tables"][0]["values"][0]["verdict"] = "nearly";
  CHECK_THROWS_WITH(validate(JsonFile::wrap(broken, "result"), load_schema("reproduction")), Contains("nearly"));
}

TEST_CASE("a summary by paper: what each value rests on, and the errors of what is not fitted") {
  const auto value = [](double ours, Basis basis) {
    ReproducedValue v;
    v.published = 10.;
    v.measure = Measure::Speedup;
    v.ours = ours;
    v.basis = basis;
    return v;
  };
  Reproduction r;
  ReproducedTable& a = r.tables.emplace_back();
  a.source = "A (2020), table 1";
  a.values = {value(10.5, Basis::Predicted), value(13, Basis::Predicted), value(10, Basis::Fitted),
              value(10, Basis::Given),       value(11, Basis::Identity),  value(9, Basis::Repeated)};
  a.unanswered = {{"figure 1", "it has no numbers"}};
  ReproducedTable& b = r.tables.emplace_back();
  b.source = "B (2021), table 2";
  b.values = {value(9.5, Basis::Shares), value(1, Basis::Unpublished)};
  ReproducedTable& other = r.tables.emplace_back();
  other.source = "Other (2022), table 3";
  other.apart = true;
  other.values = {value(20, Basis::Predicted)};
  const std::vector<PaperSummary> papers = summarise(r);
  REQUIRE(papers.size() == 4);
  CHECK(papers[0].paper == "A");
  CHECK((papers[0].of(Basis::Predicted).met == 1 && papers[0].of(Basis::Predicted).of == 2));
  CHECK(papers[0].of(Basis::Fitted).met == 1);
  CHECK(papers[0].of(Basis::Given).of == 1);
  CHECK((papers[0].of(Basis::Identity).met == 0 && papers[0].of(Basis::Identity).of == 1));
  CHECK(papers[0].of(Basis::Repeated).met == 1);
  CHECK(papers[0].unanswered == 1);
  CHECK(papers[0].mean_error.value() == Approx((.05 + .3) / 2));
  CHECK((papers[0].near.met == 1 && papers[0].near.of == 2));
  CHECK(papers[1].of(Basis::Shares).met == 1);
  CHECK(papers[1].shown == 1);
  CHECK(papers[2].apart);
  CHECK(papers[3].paper == "all");
  CHECK(papers[3].of(Basis::Predicted).of == 2);
  CHECK(papers[3].mean_error.value() == Approx((.05 + .3 + .05) / 3));
  CHECK(papers[3].median_error.value() == Approx(.05));
}

TEST_CASE("options that take a constant away reach every experiment of a table") {
  FilesRead files;
  const PublishedTable published("fsmoe-fig7", files);
  const JsonFile settings = published.settings_without("contention");
  int experiments = 0;
  for (const auto& [name, list] : JsonReader(settings).at("varied").members())
    for (const JsonReader& each : list.elements()) {
      CHECK(each.string("overlap") == "ideal");
      ++experiments;
    }
  CHECK(experiments > 1);
}

TEST_CASE("results as CSV have a line for each value, as a page a section for each table") {
  const Reproduction reproduction = cheap_tables();
  std::ostringstream csv, page;
  reports::write_csv(csv, reproduction);
  const std::string text = csv.str();
  std::size_t values = 0;
  for (const ReproducedTable& table : reproduction.tables) values += table.values.size();
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == values + 1);
  CHECK_THAT(text, Contains("fsmoe-table2,\"A, Mixtral-7B backward: all-reduce\",ms,26.45,"));
  reports::write_html(page, reproduction);
  for (const ReproducedTable& table : reproduction.tables)
    CHECK_THAT(page.str(), Contains("<section id=\"" + table.id));
}
