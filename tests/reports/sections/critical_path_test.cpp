// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "reports/page/html.hpp"
#include "tests/reports/sample_reports.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

nlohmann::ordered_json path_of(const Report& report, std::size_t result) {
  return reports::to_json(report)["results"][result]["critical_path"];
}

}  // namespace

TEST_CASE("the critical path of a pipelined step leaves out what was hidden") {
  // Backwards from the end: update 0.75, expert backward 2.85, combine of chunk 1 0.8, its expert 0.8, which waits for
  // the gather 0.2 and not for the expert of chunk 0; both dispatches 0.8 + 0.8, attention 1. Together 8 ms.
  const auto path = path_of(test::small_report(), 1);
  const std::vector<std::tuple<std::string, std::string, int, double>> expected{
      {"expert", "backward", 1, 2.85},      {"dispatch", "forward", 2, 1.6}, {"attention", "forward", 1, 1.0},
      {"combine", "forward", 1, 0.8},       {"expert", "forward", 1, 0.8},   {"update", "update", 1, 0.75},
      {"esp_all_gather", "forward", 1, 0.2}};
  REQUIRE(path.size() == expected.size());
  double sum = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const double ms = path[i]["time_s"].get<double>() * 1e3;
    sum += ms;
    for (const auto& [op, phase, ops, time] : expected)
      if (path[i]["op"] == op && path[i]["phase"] == phase) {
        CHECK(path[i]["ops"] == ops);
        CHECK(ms == Approx(time));
      }
    if (i > 0) CHECK(path[i]["time_s"] <= path[i - 1]["time_s"]);
  }
  CHECK(sum == Approx(8));
  CHECK(path[0]["op"] == "expert");
  CHECK(path[1]["op"] == "dispatch");
}

TEST_CASE("a predicted step is its critical path, without gaps") {
  for (const Report& report : {test::mixtral_report(), test::pipeline_report()})
    for (std::size_t i = 0; i < report.results.size(); ++i) {
      double sum = 0;
      for (const auto& share : path_of(report, i)) sum += share["time_s"].get<double>();
      INFO(report.results[i].system);
      CHECK(sum == Approx(report.results[i].metrics.makespan.value()).epsilon(1e-9));
    }
}

TEST_CASE("text and page show the same table, and nothing without a timeline") {
  Report report = test::small_report();
  const auto text = [&] {
    std::ostringstream out;
    reports::write_table(out, report, false, true);
    return out.str();
  };
  const auto page = [&] {
    std::ostringstream out;
    reports::write_html(out, report);
    return out.str();
  };
  CHECK_THAT(text(), Contains("what limits the step") && Contains("expert backward    1      35.6"));  // 2.85 / 8
  CHECK_THAT(page(),
             Contains(R"("what limits the step")") && Contains(R"(["pipelined","expert backward","1","35.6"])"));
  for (SystemResult& result : report.results) result.schedule = nullptr;
  CHECK_THAT(text(), !Contains("what limits the step"));
  CHECK_THAT(page(), !Contains(R"("what limits the step")"));
  CHECK(path_of(report, 0).empty());
}
