// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "reports/page/html.hpp"
#include "tests/reports/sample_reports.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("the costs that matter are those of the fastest result in text, of all in data") {
  Report report = test::small_report();
  CHECK(reports::to_json(report)["results"][0]["costs_that_matter"].empty());
  CHECK(reports::to_json(report)["results"][0]["interval_s"].is_null());
  for (std::size_t i = 0; i < 2; ++i) {
    StepRange& range = report.results[i].range.emplace();
    range.low = .9;
    range.high = 1.25;
    range.draws = {1, 1};
    range.costs = {{i == 0 ? "slow cost" : "fast cost", Origin::Assumed, 1.3, .95, 1.1}};
  }
  std::ostringstream text;
  reports::write_table(text, report, false, true);
  CHECK_THAT(text.str(), Contains("costs that matter most"));
  CHECK_THAT(text.str(), Contains("fast cost  assumed"));
  CHECK_THAT(text.str(), Contains("-5.0"));
  CHECK_THAT(text.str(), Contains("+10.0"));
  CHECK_THAT(text.str(), !Contains("slow cost"));
  CHECK_THAT(text.str(), Contains("7.2 - 10.0"));  // of 8 ms; with one digit fewer than without a range
  const auto json = reports::to_json(report)["results"][1];
  CHECK(json["interval_s"][0].get<double>() == Approx(.0072));
  CHECK(json["interval_s"][1].get<double>() == Approx(.01));
  CHECK(json["draws"] == 2);
  CHECK(json["costs_that_matter"][0]["cost"] == "fast cost");
  CHECK(json["costs_that_matter"][0]["high_s"].get<double>() == Approx(.0088));
  std::ostringstream page;
  reports::write_html(page, report);
  CHECK_THAT(page.str(), Contains("fast cost"));
}
