// SPDX-License-Identifier: Apache-2.0
// Files of measured operators: read, priced, refused at the place of what is wrong.
#include "bench/reproduce/measured_operators.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "models/results/reproduction.hpp"
#include "reports/data/operators_report.hpp"
#include "reports/data/reproduction_report.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// Two nodes, whose costs have no table: alphas, and betas of flops and bytes.
void write_roofline(const test::TemporaryFolder& folder, int gpus_per_node) {
  folder.write("own/cluster.json", R"({"name": "own", "nodes": 2, "gpus_per_node": )" + std::to_string(gpus_per_node) +
                                       R"(, "device": {"name": "d", "memory": "80 GiB", "memory_bandwidth": "2 TB/s",
    "peak": {"bf16": "500 TFLOP/s"}}, "node_link": "nvswitch", "node_bandwidth": "300 GB/s", "nics_per_node": )" +
                                       std::to_string(gpus_per_node) + R"(, "nic_bandwidth": "400 Gb/s"})");
  folder.write("own/costs.json", R"({"name": "roofline", "collectives": [
    {"collective": "all_reduce", "link": "inter", "alpha": "20 us", "beta": "40 ps/B",
     "provenance": {"origin": "measured", "source": "s", "within": 1.1}},
    {"collective": "all_to_all", "link": "inter", "alpha": "20 us", "beta": "1 ns/B",
     "provenance": {"origin": "measured", "source": "s", "within": 1.1}}],
    "gemms": [{"dtype": "bf16", "alpha": "10 us", "beta": "2 fs/flop",
               "provenance": {"origin": "measured", "source": "s", "within": 1.2}}],
    "memory": {"alpha": "1 us", "beta": "1 ps/B", "provenance": {"origin": "measured", "source": "s"}}})");
}

// The operators stand from the third line on.
std::string operators_file(const std::string& operators, const std::string& head = R"("licence": "none")") {
  return R"({"title": "t", "source": "s", "cluster": "cluster.json", "calibration": "costs.json",
  )" + head +
         R"(, "operators": [
  )" + operators +
         R"(], "notes": ["n"]})";
}

constexpr auto two_operators =
    R"({"kernel": "gemm", "shape": {"rows": 1000, "columns": 2000, "inner": 500}, "time": "28 us"},
  {"name": "a, b", "kernel": "all_reduce", "shape": {"ranks": 8, "bytes": "1 MB"}, "time": "60 us", "note": "m"})";

OperatorsTable priced_operators(const std::string& name, int draws = 0) {
  FilesRead files;
  Options options;
  options.draws = draws;
  OperatorsFile file(name, files);
  file.price(options);
  return file.table();
}

OperatorsTable priced_text(const std::string& text, int gpus_per_node = 4, int draws = 0) {
  const test::TemporaryFolder folder;
  write_roofline(folder, gpus_per_node);
  folder.write("own/file.json", text);
  return priced_operators("own/file.json", draws);
}

std::string refusal_of_operators(const std::string& operators, const std::string& head = R"("licence": "none")") {
  try {
    priced_text(operators_file(operators, head));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("operators are priced by themselves, with the range of the costs that they have") {
  const OperatorsTable table = priced_text(operators_file(two_operators), 4, 400);
  CHECK(table.id == "file");
  CHECK(table.cluster == "own");
  CHECK(table.calibration == "roofline");
  CHECK(table.independent);
  REQUIRE(table.operators.size() == 2);
  // 10 us and 2 x 1000 x 2000 x 500 flops of 2 fs.
  const MeasuredOperator &product = table.operators[0], &sum = table.operators[1];
  CHECK(product.name == "gemm 1000 x 2000 x 500");
  CHECK(product.predicted.value() == Approx(14e-6));
  CHECK(time_error(product) == Approx(-.5));
  // Launches and rate are apart, and each nine times in ten within 1.2: their logarithms are 10 / 14 and 4 / 14 of it.
  const double width = std::pow(1.2, std::hypot(10. / 14, 4. / 14));
  CHECK(product.range->high == Approx(width).margin(.03));
  CHECK_FALSE(*range_holds(product));
  // 20 us and 1e6 bytes of 40 ps on two nodes, all of it within 1.1.
  CHECK(sum.name == "a, b");
  CHECK(sum.predicted.value() == Approx(60e-6));
  CHECK(sum.range->low == Approx(1 / 1.1).margin(.02));
  CHECK(sum.range->high == Approx(1.1).margin(.02));
  CHECK(*range_holds(sum));
}

TEST_CASE("a dispatch between nodes sends each token once to each node that has one of its experts") {
  const OperatorsTable table = priced_text(operators_file(R"({"kernel": "dispatch", "shape": {"ranks": 2, "tokens": 100,
    "hidden": 500, "top_k": 1, "experts": 2, "multiprocessors": 20}, "time": "100 us"})"),
                                           1);
  // To the other node go half of 100 rows of 1,000 bytes, each with its place and its expert (2 x 4 bytes), and a count
  // (4 bytes): 50,404 bytes, which an all-to-all of twice as many sends. 20 us and 100,808 bytes of 1 ns.
  CHECK(table.operators[0].predicted.value() == Approx(120.808e-6));
  CHECK(table.operators[0].name == "dispatch 2 x 100 x 500 x 1 x 2 x 20");
}

TEST_CASE("what is wrong in a file of operators is refused at its place") {
  const auto of_shape = [](const std::string& kernel, const std::string& shape) {
    return refusal_of_operators(R"({"kernel": ")" + kernel + R"(", "shape": {)" + shape + R"(}, "time": "1 s"})");
  };
  CHECK(refusal_of_operators(two_operators) == "accepted");
  CHECK_THAT(refusal_of_operators(R"({"kernel": "gemm", "shape": {"rows": 1}, "time": 3})"),
             StartsWith("own/file.json:3:52: /operators/0/time: expected a string"));
  CHECK_THAT(of_shape("gemm", R"("rows": 1, "columns": 1)"),
             StartsWith("own/file.json:3:31: /operators/0/shape: ") && Contains("inner"));
  CHECK_THAT(of_shape("gem", R"("rows": 1)"), StartsWith("own/file.json:3:14: /operators/0/kernel: "));
  CHECK_THAT(
      of_shape("gemm", R"("ranks": 8)"),
      StartsWith("own/file.json:3:41: /operators/0/shape/ranks: no size of gemm, expected rows, columns, inner"));
  CHECK_THAT(of_shape("all_reduce", R"("ranks": 6, "bytes": "1 MB")"),
             StartsWith("own/file.json:3:47: /operators/0/shape/ranks: 6 ranks on nodes of 4 GPUs, expected a number"));
  CHECK_THAT(of_shape("all_gather", R"("ranks": 8, "bytes": "1 MB")"),
             StartsWith("own/file.json:3:3: /operators/0: calibration roofline has no all_gather cost on inter links"));
  CHECK_THAT(of_shape("dispatch", R"("ranks": 8, "tokens": 1, "hidden": 8, "top_k": 1, "experts": 9,
    "multiprocessors": 4)"),
             Contains("/operators/0/shape/experts: 9 experts on 8 ranks, expected a multiple"));
  CHECK_THAT(refusal_of_operators(two_operators, R"("dtype": "fp8")"), StartsWith("own/file.json:3:3: /operators/0: "));
  CHECK_THAT(refusal_of_operators(two_operators, R"("load": "training")"), Contains("unknown key \"load\""));
  FilesRead files;
  CHECK_THROWS_WITH(OperatorsFile("h200-by-h10", files), Contains("did you mean \"h200-by-h100\"?"));
}

TEST_CASE("measured operators as JSON follow the schema, as CSV they have a line each, as a page a section") {
  Reproduction reproduction;
  reproduction.operators.push_back(priced_text(operators_file(two_operators, R"("independent": false)"), 4, 20));
  const auto json = nlohmann::json(reports::to_json(reproduction));
  CHECK_NOTHROW(validate(JsonFile::wrap(json, "result"), load_schema("reproduction")));
  CHECK(json["operators_summary"][0]["operators"] == 2);
  CHECK(json["operators_summary"][0]["independent"] == false);
  CHECK(json["operators_summary"][0]["in_range"] == 1);
  CHECK(json["operators"][0]["kernels"][1]["kernel"] == "all_reduce");
  CHECK(json["operators"][0]["operators"][0]["error"] == Approx(-.5));
  CHECK(json["operators"][0]["operators"][0]["draws"] == 20);

  std::ostringstream csv, page, text;
  reports::write_csv(csv, reproduction);
  const std::string lines = csv.str();
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
  CHECK_THAT(lines, Contains("file,no,\"a, b\",all_reduce,"));
  reports::write_html(page, reproduction);
  CHECK_THAT(page.str(), Contains("<h1>Measured operators beside prices</h1>") && Contains("<section id=\"file\">") &&
                             Contains("<small>m</small>"));
  reports::write_table(text, reproduction, false);
  CHECK_THAT(text.str(), Contains("measured operators") && Contains("90 % of 20 draws") && Contains("1 of 2") &&
                             Contains("priced by roofline") && !Contains("targets met"));
}

TEST_CASE("every shipped file of measured operators is priced, and says what its calibration rests on") {
  for (const std::string& name : known_names("operators")) {
    INFO(name);
    const OperatorsTable table = priced_operators(name);
    CHECK(table.id == name);
    CHECK_FALSE(table.source.empty());
    CHECK_FALSE(table.licence.empty());
    CHECK(table.operators.size() <= 150);
    CHECK(std::ranges::any_of(
        table.notes, [&](const std::string& n) { return n.starts_with("Selection: ") || n.starts_with("All rows"); }));
    CHECK(std::ranges::any_of(table.notes, [&](const std::string& n) { return n.find(table.calibration) != n.npos; }));
    for (const MeasuredOperator& each : table.operators) CHECK(each.predicted > Seconds(0));
  }
}
