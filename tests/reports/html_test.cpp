// SPDX-License-Identifier: Apache-2.0
#include "reports/page/html.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "reports/answer/json_report.hpp"
#include "tests/reports/sample_reports.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

std::string page(const Report& report) {
  std::ostringstream out;
  reports::write_html(out, report);
  return out.str();
}

// The data that a browser hands to the page's script.
nlohmann::json data_of(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = html.find(open) + open.size();
  return nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
}

// For a look with one's own eyes: DOVETAIL_KEEP_PAGES=folder.
void keep(const std::string& name, const std::string& html) {
  if (const char* folder = std::getenv("DOVETAIL_KEEP_PAGES"))
    std::ofstream(std::filesystem::path(folder) / name) << html;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("a page carries the whole result file and refers to nothing outside itself") {
  const Report report = test::mixtral_report();
  const std::string html = page(report);
  keep("mixtral.html", html);
  CHECK(data_of(html)["report"] == nlohmann::json::parse(reports::to_json(report).dump()));
  CHECK_FALSE(std::regex_search(html, std::regex("(src|href)\\s*=\\s*[\"']")));
  CHECK_THAT(html, !Contains("http:") && !Contains("https:") && !Contains("@import") && !Contains("url("));
  CHECK_THAT(html, Contains("<canvas") && Contains("Content-Security-Policy"));
  CHECK_THAT(html, !Contains("@css@") && !Contains("@data@") && !Contains("@script@") && !Contains("@title@"));
}

TEST_CASE("timelines in a page have every op and a window inside the step") {
  const Report report = test::mixtral_report();
  const auto data = data_of(page(report));
  REQUIRE(data["timelines"].size() == report.results.size());
  CHECK(data["fastest"].is_number());
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const auto& timeline = data["timelines"][i];
    const Schedule& schedule = *report.results[i].schedule;
    for (const char* column : {"work", "stream", "start", "length"})
      CHECK(timeline[column].size() == schedule.ops.size());
    CHECK(timeline["window"][0] < timeline["window"][1]);
    CHECK(timeline["note"] == "");
    // Works say what the ops of a step do; times are from the end of the stream's op before.
    std::vector<long long> ended(schedule.streams.size());
    for (const OpId op : schedule.ops.ids()) {
      const std::size_t at = op, work = timeline["work"][at], stream = timeline["stream"][at];
      CHECK(timeline["works"]["kind"][work] == static_cast<int>(schedule.ops[op].kind));
      CHECK(timeline["works"]["layer"][work] == schedule.ops[op].layer);
      CHECK(timeline["works"]["flops"][work] == schedule.ops[op].flops().value());
      const long long start = ended[stream] + timeline["start"][at].get<long long>();
      CHECK(start == std::llround(report.results[i].timeline.ops[op].start.value() * 1e9));
      ended[stream] = start + timeline["length"][at].get<long long>();
      CHECK(ended[stream] == std::llround(report.results[i].timeline.ops[op].finish.value() * 1e9));
    }
  }
}

TEST_CASE("a page of long steps has at most 10 MB, and says which micro-batches it draws") {
  const Report report = test::long_report();
  std::size_t ops = 0;
  for (const SystemResult& result : report.results) ops += result.schedule->ops.size();
  REQUIRE(ops > 400'000);  // of 30 bytes each
  const std::string html = page(report);
  keep("long.html", html);
  CHECK(html.size() < 10'000'000);
  const nlohmann::json data = data_of(html);
  for (const auto& timeline : data["timelines"]) {
    CHECK_THAT(timeline["note"].get<std::string>(), Contains("Drawn are micro-batches 0 to ") && Contains("--trace"));
    std::set<int> drawn;
    for (const auto& micro_batch : timeline["micro_batch"]) drawn.insert(micro_batch.get<int>());
    const int last = report.results.front().schedule->micro_batches - 1;
    CHECK((drawn.contains(0) && drawn.contains(last / 2) && drawn.contains(last)));
    CHECK(static_cast<int>(drawn.size()) < last);
    CHECK(timeline["work"].size() < 130'000);
  }
}

TEST_CASE("names cannot break out of the page") {
  Report report = test::small_report();
  const std::string evil = "</script><script>alert(1)</script><!--@data@ &amp; \"'";
  report.results[0].system = evil;
  report.experiment.model.name = evil;
  report.notes = {evil};
  const std::string html = page(report);
  keep("evil.html", html);
  CHECK(count(html, "<script>") == 1);
  CHECK(count(html, "</script>") == 2);
  CHECK_THAT(html, !Contains("alert(1)</") && !Contains("<!--"));
  CHECK(data_of(html)["report"]["results"][0]["system"] == evil);
  CHECK_THAT(html, Contains("<title>Dovetail: &lt;/script&gt;&lt;script&gt;alert(1)"));
}

TEST_CASE("pages of a run, of nothing, and of a result without a timeline") {
  const std::string run = page(test::small_run_report());
  keep("run.html", run);
  CHECK(data_of(run)["timelines"][1]["name"] == "pipelined (measured)");
  CHECK(data_of(run)["timelines"][1]["emulated"][1] == 1);
  CHECK(data_of(run)["timelines"][0]["emulated"].is_null());

  Report report = test::small_report();
  keep("small.html", page(report));
  for (SystemResult& result : report.results) {
    result.schedule = nullptr;
    result.feasible = false;
  }
  const std::string bare = page(report);
  keep("bare.html", bare);
  CHECK(data_of(bare)["timelines"].empty());
  CHECK(data_of(bare)["fastest"].is_null());
  report.results.clear();
  const std::string empty = page(report);
  keep("empty.html", empty);
  CHECK(data_of(empty)["report"]["results"].empty());
}

TEST_CASE("a page of pipeline stages has the streams of each and the micro-batches of ops") {
  const Report report = test::pipeline_report();
  const std::string html = page(report);
  keep("pipeline.html", html);
  const auto data = data_of(html);
  const auto& timeline = data["timelines"][0];
  REQUIRE(timeline["streams"].size() == 8);
  CHECK(timeline["streams"][0]["name"] == "compute, class 0");
  CHECK(timeline["streams"][6]["name"] == "send, class 1");
  CHECK(timeline["micro_batch"].size() == report.results[0].schedule->ops.size());
  CHECK(data["report"]["results"][0]["links"].size() == 4);  // network and node links of either class
}
