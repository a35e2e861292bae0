// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/confirm.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/pipeline/tune.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

struct Tuned {
  TuneQuestion question;
  Report report;
};

// The best plans of six layers on two nodes, those with so many pipeline stages.
Tuned tuned(int stages, int count) {
  TuneOptions options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 2;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=6", "parallelism.pp=" + std::to_string(stages)};
  options.global_batch = 32;
  options.sequence = 2048;
  options.draws = 0;
  options.count = count;
  options.systems = {"tutel"};
  TuneQuestion question = load_tune_question(options);
  Report report = tune(question, options, {});
  return {std::move(question), std::move(report)};
}

Confirmation confirmed(const Tuned& tuned, const std::string& by) {
  return Confirmer(tuned.question.question.experiment, by, {Seconds(.05), 1}).confirm(tuned.report.results);
}

std::string table_of(const Report& report) {
  std::ostringstream table;
  reports::write_table(table, report, false, true);
  return table.str();
}

}  // namespace

TEST_CASE("tune: SimGrid finds the steps of the best plans that the search predicted, and their order") {
  if (DOVETAIL_HAS_SIMGRID == 0) return;
  Tuned answer = tuned(2, 3);
  const Confirmation simulated = confirmed(answer, "simgrid");
  REQUIRE(simulated.plans.size() == 3);
  for (const ConfirmedPlan& plan : simulated.plans) {
    INFO(plan.rank);
    CHECK(plan.modelled == answer.report.results.at(static_cast<std::size_t>(plan.rank - 1)).metrics.makespan);
    CHECK(plan.step.value() == Approx(plan.modelled.value()).epsilon(1e-3));
  }
  answer.report.tuning->confirmation = simulated;
  CHECK_THAT(table_of(answer.report), Catch::Contains("the best plans, simulated by simgrid"));
}

TEST_CASE("tune: the best plans really run in small, held to what is modelled for that size") {
  Tuned answer = tuned(2, 1);
  const Confirmation measured = confirmed(answer, "host");
  CHECK(measured.in_small);
  REQUIRE(measured.plans.size() == 1);
  CHECK(measured.plans.front().step >= measured.plans.front().modelled * .999);
  answer.report.tuning->confirmation = measured;
  CHECK_THAT(table_of(answer.report), Catch::Contains("really run in small (host)"));
  std::ostringstream json;
  reports::write_json(json, answer.report);
  CHECK_NOTHROW(validate(JsonFile::parse(json.str(), "result"), load_schema("tuning")));
}

TEST_CASE("tune: a plan that cannot be confirmed has its reason, and so has a name that is none") {
  Tuned answer = tuned(1, 2);
  answer.report.results.back().plan.forward_degree = 100'000;  // of 96 tokens
  const Confirmation measured = confirmed(answer, "host");
  CHECK(measured.plans.size() == 1);
  REQUIRE(measured.refused.size() == 1);
  CHECK_THAT(measured.refused.front(), Catch::StartsWith("plan 2: "));
  CHECK_THROWS_WITH(confirmed(answer, "guess"), Catch::Contains("\"guess\": unknown"));
  CHECK_THROWS_AS(confirmed(answer, "analytic"), InputError);
}
