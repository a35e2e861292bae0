// SPDX-License-Identifier: Apache-2.0
#include "reports/text/gantt_text.hpp"

#include <catch2/catch.hpp>

#include "reports/text/window.hpp"
#include "tests/reports/sample_reports.hpp"
#include "tests/support/golden.hpp"

using namespace dovetail;
using namespace dovetail::reports;
using Catch::Matchers::Contains;

TEST_CASE("text Gantt: a letter starts a block, small in the backward pass, dots are idle") {
  const Report report = test::small_report();
  const SystemResult& result = report.results[0];
  const std::string text = gantt_text(*result.schedule, result.timeline, {20, {}});
  CHECK_THAT(text, Contains("       compute A-...E--...e------U-\n"));
  CHECK_THAT(text, Contains(" communication ..D--...C--.........\n"));
  CHECK_THAT(text, Contains("one character is 500 us"));
}

TEST_CASE("text Gantts, as approved") {
  const Report report = test::small_report();
  std::string text;
  for (const SystemResult& result : report.results) text += gantt_text(*result.schedule, result.timeline) + "\n";
  CHECK(test::golden_difference("reports/gantt.txt", text) == "");
}

TEST_CASE("a window shows a part, an empty one does no harm") {
  const Report report = test::mixtral_report();
  const SystemResult& fsmoe = report.results.back();
  const Interval window = representative_window(*fsmoe.schedule, fsmoe.timeline);
  CHECK_THAT(gantt_text(*fsmoe.schedule, fsmoe.timeline, {100, window}), Contains("D dispatch") && Contains("E0"));
  CHECK_NOTHROW(gantt_text(*fsmoe.schedule, fsmoe.timeline, {100, Interval{Seconds(1), Seconds(1)}}));
  CHECK_NOTHROW(gantt_text(Schedule{}, Timeline{}));
}

TEST_CASE("a pipeline has a row for each stage's streams, and its window is the whole step") {
  const Report report = test::pipeline_report();
  const SystemResult& result = report.results[0];
  const Interval window = representative_window(*result.schedule, result.timeline);
  CHECK(window.start == Seconds(0));
  CHECK(window.finish == result.metrics.makespan);
  const std::string text = gantt_text(*result.schedule, result.timeline, {200, window});
  CHECK_THAT(text, Contains("     0 compute ") && Contains("     1 compute ") && Contains("        1 send "));
}
