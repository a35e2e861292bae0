// SPDX-License-Identifier: Apache-2.0
// Every value of every published table: ours as approved (tests/golden/reproduce, by paper), so that a change of the
// model is seen; the published ones as a second transcription of the papers has them, made without sight of the first.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/reproduce/published.hpp"
#include "bench/reproduce/tables.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Json = nlohmann::ordered_json;

namespace {

std::filesystem::path golden(const std::string& name) {
  return test::golden_file("reproduce/" + name + ".json");
}

Json read(const std::string& name) {
  std::ifstream file(golden(name));
  REQUIRE(file);
  return Json::parse(file);
}

Json json(const TableValue& value) {
  if (const auto* words = std::get_if<std::string>(&value)) return *words;
  return std::get<double>(value);
}

// Sums may come in another order with another compiler.
bool same(const Json& value, const Json& approved) {
  if (!value.is_number() || !approved.is_number()) return value == approved;
  return std::abs(value.get<double>() - approved.get<double>()) <= 1e-6 * std::abs(approved.get<double>()) + 1e-9;
}

Json ours_of(const std::string& paper) {
  FilesRead files;
  Json tables = Json::object();
  for (const std::string& id : reproduced_ids()) {
    if (!id.starts_with(paper)) continue;
    const ReproducedTable table = reproduce_table(id, files);
    for (const ReproducedValue& value : table.values) tables[id][value.name] = json(value.ours);
  }
  return tables;
}

void check_against_approved(const std::string& paper) {
  const Json ours = ours_of(paper);
  if (test::approves_now()) std::ofstream(golden(paper)) << ours.dump(1) << '\n';
  const Json approved = read(paper);
  CHECK(ours.size() == approved.size());
  for (const auto& [id, values] : approved.items()) {
    INFO(id);
    REQUIRE(ours.contains(id));
    CHECK(ours[id].size() == values.size());
    for (const auto& [name, value] : values.items()) {
      INFO(name);
      REQUIRE(ours[id].contains(name));
      INFO("ours " << ours[id][name] << ", approved " << value);
      CHECK(same(ours[id][name], value));
    }
  }
}

}  // namespace

#ifndef __SANITIZE_ADDRESS__  // ten minutes there; the sample of layers in reproduce_fsmoe_test.cpp runs the same code
TEST_CASE("values of every row of FSMoE's tables") {
  check_against_approved("fsmoe");
}
#endif
TEST_CASE("values of every row of Tutel's tables") {
  check_against_approved("tutel");
}
TEST_CASE("values of every row of MPipeMoE's tables") {
  check_against_approved("mpipemoe");
}
TEST_CASE("values of every row of AMPipe's tables") {
  check_against_approved("ampipe");
}
TEST_CASE("values of every row of Zero Bubble's table") {
  check_against_approved("zero-bubble");
}

// "readings": values that are no words or numbers of the text but follow from them. Zero Bubble's table and AMPipe's
// closed form, which has no numbers, were transcribed once.
TEST_CASE("published values are those of a second transcription") {
  const Json second = read("transcription");
  const std::set<std::string> once{"zero-bubble-table5", "ampipe-appendix-c"};
  FilesRead files;
  std::size_t found = 0, transcribed = 0;
  for (const auto& [id, values] : second["tables"].items()) transcribed += values.size();
  for (const std::string& id : reproduced_ids()) {
    if (once.contains(id)) continue;
    const Json values = second["tables"].value(id, Json::object());
    const auto readings = second["readings"].value(id, std::vector<std::string>());
    const PublishedTable published(id, files);
    for (const ReproducedValue& value : published.table().values) {
      if (!value.published || std::ranges::find(readings, value.name) != readings.end()) continue;
      INFO(id << ": " << value.name);
      ++found;
      REQUIRE(values.contains(value.name));
      CHECK(same(json(*value.published), values[value.name]));
    }
  }
  CHECK(found == transcribed);
}
