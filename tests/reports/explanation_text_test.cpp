// SPDX-License-Identifier: Apache-2.0
#include "reports/text/explanation_text.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "reports/data/explanation_json.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

constexpr double gibibyte = 1024. * 1024 * 1024;

ExplainedStep step(double ms, double computation, double hidden, double waiting, double peak) {
  Metrics m;
  m.makespan = Seconds(ms * 1e-3);
  m.computation = Seconds(computation * 1e-3);
  m.hidden = Seconds(hidden * 1e-3);
  m.waiting = Seconds(waiting * 1e-3);
  m.exposed_communication = m.makespan - m.computation - m.waiting;
  return {m, Bytes(peak * gibibyte)};
}

// 100 ms: 60 of computation, 10 of waiting, so 30 of exposed communication beside 20 that are hidden.
Explanation example() {
  Explanation x;
  x.name = "fsmoe";
  x.degree = 4;
  x.best = step(100, 60, 20, 10, 8);
  x.limit = Bytes(11 * gibibyte);
  x.next = NextBest{"tutel", step(110, 58, 10, 10, 8), {"order alternate in place of dispatch_first"}, false};
  x.without = {{StepPart::RowExchanges, Seconds(.075)}, {StepPart::Experts, Seconds(.09)}};
  x.alternatives = {{OtherChoice::Uncut, step(120, 55, 0, 10, 8)}};
  return x;
}

}  // namespace

TEST_CASE("an explanation says why, what limits, and what overlap brings") {
  // tutel exposes 110 - 58 - 10 = 42 ms, so 12 more; in one piece 120 - 55 - 10 = 55 ms, so 25 more.
  CHECK(reports::explanation_text(example()) ==
        std::vector<std::string>{
            "fsmoe takes 100 ms a step. The next best, tutel, takes 10 % more. On average over its ranks, it computes "
            "2.00 ms less and waits for communication 12.0 ms more. It has order alternate in place of dispatch_first.",
            "A rank computes for 60 % of the step, waits for communication for 30 %, and idles for 10 %.",
            "The largest limit is the exchanges of rows between tokens and experts: if they took no time, the step "
            "would take 75.0 ms, 25 % less. It would take, without products of experts 10 % less.",
            "Overlap: 40 % of the time of communication lies beside computation. With the rows of experts in one "
            "piece instead of up to 4, the step would take 20 % more. A rank then computes 5.00 ms less and waits for "
            "communication 25.0 ms more.",
            "Memory: the fullest rank holds 8.00 GiB of 11.0 GiB."});
}

TEST_CASE("an explanation says when memory, the pipeline or the host limit") {
  Explanation x = example();
  x.next.reset();
  x.stages = 4;
  x.best.metrics.launch_bound = Seconds(.02);
  x.alternatives = {{OtherChoice::KeepRows, step(90, 50, 20, 10, 12)},
                    {OtherChoice::MoreMicroBatches, step(190, 120, 40, 10, 8)},
                    {OtherChoice::Graphs, step(95, 60, 20, 5, 8)},
                    {OtherChoice::LargerMicroBatches, step(90, 60, 20, 5, 14)},
                    {OtherChoice::FusedKernels, step(98, 60, 20, 8, 8)}};
  const std::vector<std::string> text = reports::explanation_text(x);
  CHECK(text.front() == "fsmoe takes 100 ms a step.");
  CHECK_THAT(text[4], Contains("would take 10 % less and need 12.0 GiB, so memory is a limit."));
  CHECK_THAT(text[5], Contains("each would take 5.0 % less time, because"));  // 190 / 2 of 100
  CHECK_THAT(text[6], Contains("for 20 % of its time. It would take in captured graphs 5.0 % less, in half as many "
                               "micro-batches 10 % less (but would not fit) and with the framework's fused kernels 2.0 "
                               "% less."));
}

TEST_CASE("an explanation of a step that nothing limits alone, or that does not fit, says so") {
  Explanation x = example();
  x.without.clear();
  x.alternatives.clear();
  x.best.peak = Bytes(12 * gibibyte);
  const std::vector<std::string> text = reports::explanation_text(x);
  CHECK_THAT(text[2], Contains("No part of the step limits it alone"));
  CHECK_THAT(text[4], Contains("1.00 GiB more than there are"));
}

TEST_CASE("a saved explanation follows its schema") {
  const nlohmann::json schema = load_schema("explanation");
  const nlohmann::ordered_json json = reports::explanation_json(example());
  CHECK_NOTHROW(validate(JsonFile::parse(json.dump(), "explanation"), schema));
  nlohmann::ordered_json broken = json;
  broken["best"].erase("step_s");
  CHECK_THROWS(validate(JsonFile::parse(broken.dump(), "explanation"), schema));
  CHECK(json["step_without_s"]["row_exchanges"] == .075);
}

// 40 ms of communication exposed apart and 30 in pairs, of which 120 / 100 is 20 %.
TEST_CASE("an explanation says what pairs of micro-batches bring, and what decides that") {
  Explanation x = example();
  PairsExplained pairs;
  pairs.chosen = true;
  pairs.micro_batches = 8;
  pairs.other = step(120, 70, 0, 10, 7);
  pairs.otherwise = {{PairLimit::Multiprocessors, Seconds(.1), Seconds(.125)},
                     {PairLimit::Connections, Seconds(.125), Seconds(.12)}};
  x.pairs = pairs;
  const auto said = [&] { return reports::explanation_text(x).at(4); };
  CHECK(said() ==
        "Pairs: without pairs of micro-batches the step would take 20 % more, expose 40.0 ms of communication in place "
        "of 30.0 ms, and hold 1.00 GiB less. Pairs gain 20 %, and would gain 25 % if operations that run together did "
        "not slow each other and lose 4.0 % if all streams shared one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1).");
  SECTION("They do not pay where a limit takes what they hide") {
    x.pairs->chosen = false;
    x.pairs->other = step(101, 80, 0, 10, 8);
    CHECK_THAT(said(), Contains("with pairs of micro-batches the step would take 1.0 % more, expose 11.0 ms") &&
                           Contains("hold as much memory. Pairs lose 1.0 %, and would gain 25 %") &&
                           Contains("mostly because communication takes multiprocessors"));
  }
  SECTION("They do not pay where they do not fit") {
    x.pairs->chosen = false;
    x.pairs->other = step(90, 80, 0, 5, 12);
    CHECK_THAT(said(), Contains("They need more memory than there is."));
  }
  SECTION("A plan may not have them") {
    x.pairs->other = {};
    x.pairs->refusal = "batch needs turns";
    CHECK(said() == "Pairs of micro-batches are not for this plan: batch needs turns.");
  }
}
