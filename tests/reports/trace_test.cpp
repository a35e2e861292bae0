#include "reports/trace.hpp"

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
    CHECK(event["name"] == to_string(schedule.ops[static_cast<std::size_t>(op)]));
    CHECK(event["tid"] == schedule.ops[static_cast<std::size_t>(op)].stream);
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
