// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/step_ranges.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "bench/pipeline/evaluate.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

// A system that repeats tokens where it may, in four stages.
Report report_of(int samples, Options& options) {
  options.request.cluster = "dgx-h100";
  options.request.nodes = 4;
  options.request.model = "olmoe-1b-7b";
  options.request.set = {"parallelism.pp=4", "parallelism.mp=8", "parallelism.esp=8",
                         "workload.batch=" + std::to_string(samples), "plan.micro_batches=" + std::to_string(samples)};
  options.systems = {"deepspeed_moe"};
  const Question question = load_question(options);
  const Candidate& candidate = question.candidates.front();
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  Report report{"simulate", question.experiment, {}, {}, {}, {}};
  report.results.push_back(evaluation.evaluate(candidate, evaluation.choose(candidate)));
  return report;
}

}  // namespace

TEST_CASE("Ranges of long steps are by estimate, with all draws, and say so") {
  Options options;
  Report report = report_of(16, options);
  REQUIRE(as_run(report.experiment, report.results.front()).parallelism.repeats_tokens());
  options.draws = 20;
  add_step_ranges(options, report);
  const StepRange simulated = report.results.front().range.value();
  CHECK_THAT(report.notes.back(), Contains("the step in 90 % of 20 draws"));
  options.draws = 2000;
  add_step_ranges(options, report);
  const StepRange estimated = report.results.front().range.value();
  CHECK_THAT(report.notes.back(), Contains("the estimated step in 90 % of 2000 draws"));
  CHECK(estimated.draws.size() == 2000);
  for (std::size_t draw = 0; draw < simulated.draws.size(); ++draw)
    CHECK(estimated.draws[draw] == Approx(simulated.draws[draw]).epsilon(.06));
}
