// SPDX-License-Identifier: Apache-2.0
#include "reports/data/online_report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/json/json_file.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::reports;
using Catch::Matchers::Contains;

namespace {

// Four steps of two strategies: 10 s against 8 s of the best of each step.
OnlineRun sample() {
  OnlineRun run;
  run.experiment = test::testbed_b();
  run.planner = "bucketed_search";
  run.trace = "<trace>";
  run.backend = "analytic";
  run.strategies = {{"a, \"quoted\"", Plan{}}, {"b", Plan{}}};
  const auto step = [](double f, double a, double b, std::size_t chosen) {
    return OnlineStep{f, 1, {Seconds(a), Seconds(b)}, chosen, Seconds(chosen == 0 ? a : b)};
  };
  run.steps = {step(1, 4, 3, 0), step(1.5, 3, 2, 0), step(2, 1, 2, 0), step(4, 3, 2, 1)};
  run.notes = {"a <note>"};
  return run;
}

}  // namespace

TEST_CASE("Regret of an online run: over the best of each step, so far, at the end and of one strategy") {
  const OnlineRun run = sample();
  CHECK(regret(run) == Approx(10.0 / 8 - 1));  // 4 + 3 + 1 + 2 over 3 + 2 + 1 + 2
  const std::vector<double> sums = cumulative_regret(run);
  CHECK(sums[0] == Approx(4.0 / 3 - 1));
  CHECK(sums[1] == Approx(7.0 / 5 - 1));
  CHECK(sums[3] == Approx(regret(run)));
  CHECK(last_part(run) == 2);
  CHECK(regret(run, 2) == Approx(0));
  CHECK(regret_of(run, 0) == Approx(11.0 / 8 - 1));
  CHECK(regret_of(run, 1) == Approx(9.0 / 8 - 1));
  OnlineRun longer = run;
  longer.steps.resize(1000, run.steps.front());
  CHECK(last_part(longer) == 700);
}

TEST_CASE("An online run as a file is valid against its schema") {
  const auto json = to_json(sample());
  CHECK_NOTHROW(validate(JsonFile::parse(json.dump(1), "run"), load_schema("online_run")));
  CHECK(json["strategies"][0]["chosen"] == 3);
  CHECK(json["regret_last"]["steps"] == 2);
  CHECK(json["steps"][3]["strategy"] == "b");
  auto broken = json;
  broken["steps"][0].erase("best_s");
  CHECK_THROWS(validate(JsonFile::parse(broken.dump(1), "run"), load_schema("online_run")));
}

TEST_CASE("An online run as a table and as CSV") {
  std::ostringstream table, csv;
  write_table(table, sample(), false, true);
  CHECK_THAT(table.str(), Contains("capacity factor 1.00 to 4.00") && Contains("25.00") && Contains("always b") &&
                              Contains("a <note>"));
  write_csv(csv, sample());
  CHECK_THAT(csv.str(), Contains("step,capacity_factor,tokens,strategy,time_s,reported_s,best_s,cumulative_regret\n"
                                 "0,1,1,\"a, \"\"quoted\"\"\",4,4,3,"));
}

TEST_CASE("The page of an online run draws itself, without scripts or anything from elsewhere") {
  std::ostringstream out;
  write_html(out, sample());
  const std::string page = out.str();
  CHECK_THAT(page, Contains("<svg") && Contains("&lt;trace&gt;") && Contains("a &lt;note&gt;") && Contains("25.00 %"));
  CHECK_THAT(page, !Contains("<script") && !Contains("<note>") && !Contains("http://") && !Contains("nan"));
  OnlineRun one = sample();
  one.steps.resize(1);
  std::ostringstream single;
  write_html(single, one);
  CHECK_THAT(single.str(), !Contains("nan") && !Contains("inf\""));
}
