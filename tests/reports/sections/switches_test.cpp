// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "tests/reports/sample_reports.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("a run that switched between plans says what that cost, in text and data") {
  Report report = test::small_run_report();
  std::ostringstream text;
  reports::write_table(text, report, false, false);
  CHECK_THAT(text.str(),
             Contains("A, then B") && Contains("the gap is 1.5 us (95 % -1.0 to 4.0) longer with a switch"));
  CHECK_THAT(text.str(), Contains("moved at a switch: 0 B of the 3.00 MiB"));
  CHECK_THAT(text.str(), Contains("9 steps with 5 switches equal the sequential training: yes"));
  const auto switching = reports::to_json(report)["results"][1]["run"]["switching"];
  CHECK(switching["turns"][1]["before"] == "A");
  CHECK(switching["turns"][1]["plan"] == "B");
  CHECK(switching["turns"][1]["gap"]["median_s"].get<double>() == Approx(21e-6));  // .02 + 1 x .001 ms
  CHECK(switching["ok"] == true);

  report.results[1].run->switching->checked_steps = 0;
  CHECK(reports::to_json(report)["results"][1]["run"]["switching"]["ok"].is_null());
  report.results[1].run->switching.reset();
  CHECK_FALSE(reports::to_json(report)["results"][1]["run"].contains("switching"));
}
