// SPDX-License-Identifier: Apache-2.0
#include "reports/data/trace.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/reports/sample_reports.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;

namespace {

std::string trace_text(const Report& report) {
  std::ostringstream out;
  reports::write_trace(out, report);
  return out.str();
}

}  // namespace

TEST_CASE("trace of a small report, as approved") {
  CHECK(test::golden_difference("reports/trace.json", trace_text(test::small_report())) == "");
}

TEST_CASE("a trace parses and has every op exactly once, on its stream, without overlaps") {
  const Report report = test::mixtral_report();
  const auto trace = nlohmann::json::parse(trace_text(report));
  std::map<int, std::set<int>> seen;
  std::map<std::pair<int, int>, std::map<double, double>> spans;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int process = event["pid"], op = event["args"]["op"];
    CHECK(seen[process].insert(op).second);
    const Schedule& schedule = *report.results[static_cast<std::size_t>(process - 1)].schedule;
    CHECK(event["name"] == to_string(schedule.ops[OpId(op)]));
    CHECK(event["tid"] == schedule.ops[OpId(op)].stream);
    spans[{process, event["tid"]}][event["ts"]] = event["dur"];
  }
  REQUIRE(seen.size() == report.results.size());
  for (std::size_t i = 0; i < report.results.size(); ++i)
    CHECK(seen[static_cast<int>(i) + 1].size() == report.results[i].schedule->ops.size());
  for (const auto& [thread, blocks] : spans) {
    double end = 0;
    for (const auto& [start, length] : blocks) {
      CHECK(std::llround(start * 1e3) >= std::llround(end * 1e3));
      end = start + length;
    }
  }
}

TEST_CASE("arrows come in pairs and lie in the ops that they connect") {
  const auto trace = nlohmann::json::parse(trace_text(test::small_report()));
  std::map<int, int> ends;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "s") ends[event["id"]] += 1;
    if (event["ph"] == "f") ends[event["id"]] += 10;
  }
  CHECK(ends.size() > 3);
  for (const auto& [id, sum] : ends) CHECK(sum == 11);
}

TEST_CASE("a result without a schedule has no process, and names are escaped") {
  Report report = test::small_report();
  report.results[0].schedule = nullptr;
  report.results[1].system = "quote \" and \\ and \x01";
  const auto trace = nlohmann::json::parse(trace_text(report));
  CHECK(trace["traceEvents"][0]["args"]["name"] == "quote \" and \\ and \x01 (predicted, analytic)");
}

TEST_CASE("each rank class is a process, and arrows lead from one to the other") {
  const Report report = test::pipeline_report();
  const Schedule& schedule = *report.results[0].schedule;
  const auto trace = nlohmann::json::parse(trace_text(report));
  CHECK(trace["traceEvents"][0]["args"]["name"] == "tutel (predicted, analytic), class 0");
  std::map<int, int> from, to;
  std::size_t ops = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "s") from[event["id"]] = event["pid"];
    if (event["ph"] == "f") to[event["id"]] = event["pid"];
    if (event["ph"] != "X") continue;
    const Op& op = schedule.ops[OpId(event["args"]["op"].get<int>())];
    CHECK(event["pid"] == 1 + schedule.class_of(op));
    CHECK(event["args"]["micro_batch"] == op.micro_batch);
    ++ops;
  }
  CHECK(ops == schedule.ops.size());
  CHECK(std::ranges::count_if(from, [&](const auto& arrow) { return to.at(arrow.first) != arrow.second; }) == 8);
}

TEST_CASE("A time that nanoseconds cannot count is refused") {
  Report report = test::small_report();
  report.results.front().timeline.ops.back().finish = Seconds(1e18);
  std::ostringstream out;
  CHECK_THROWS_WITH(reports::write_trace(out, report),
                    "--trace: an operation at 1e+18 s, expected at most 9e+09 s: traces count nanoseconds");
}
