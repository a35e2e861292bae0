// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/evaluate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/pipeline/provenance.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "models/price/calibration.hpp"
#include "models/results/add_figures.hpp"
#include "reports/answer/json_report.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

Options shipped(std::vector<std::string> systems = {}) {
  Options options;
  options.request.cluster = "fsmoe-testbed-b";
  options.request.model = "mixtral-8x7b";
  options.systems = std::move(systems);
  return options;
}

}  // namespace

TEST_CASE("without --systems all shipped ones are compared, those that overlap nothing first") {
  const Question question = load_question(shipped());
  CHECK(question.candidates.size() == known_names("systems").size());
  CHECK(question.candidates.front().system.plan.scope == Scope::Layer);
}

TEST_CASE("every shipped system gives a valid result file on every backend of this build") {
  const Question question = load_question(shipped());
  for (const BackendEntry& entry : backends()) {
    if (entry.make == nullptr || entry.links_alone) continue;  // needs a described network
    const auto backend = entry.make({});
    Report report{"compare", question.experiment, {}, {}, {}, question.notes};
    for (const Candidate& candidate : question.candidates) {
      if (test::needs_micro_batches(candidate.system.plan)) continue;  // they ask for stages, or for another format
      report.results.push_back(
          evaluate(question.experiment, candidate.system.name, choose_plan(question, candidate), *backend));
      const SystemResult& result = report.results.back();
      INFO(entry.name << " " << result.system);
      CHECK(result.backend == entry.name);
      CHECK(result.feasible);
      CHECK(result.lower_bound <= result.metrics.makespan * (1 + 1e-12));
      CHECK(result.plan_bound <= result.metrics.makespan * (1 + 1e-12));
    }
    report.provenance = provenance({"dovetail", "compare"}, question.files, 3);
    add_figures(report);
    std::ostringstream text;
    reports::write_json(text, report);
    CHECK_NOTHROW(validate(JsonFile::parse(text.str(), "result.json"), load_schema("result")));
  }
}

TEST_CASE("a knob that the user sets holds against the planner") {
  Options options = shipped({"fsmoe"});
  options.request.set = {"plan.backward_degree=2"};
  const Question question = load_question(options);
  const planners::PlanChoice choice = choose_plan(question, question.candidates.front());
  CHECK(choice.plan.backward_degree == 2);
  CHECK(choice.plan.backward_degrees.empty());
  CHECK_THAT(choice.report.reason, Contains("as the user set"));
  CHECK_FALSE(choice.report.runner_up);
}

TEST_CASE("a knob set to what the planner chooses anyway changes nothing") {
  Options options = shipped({"tutel"});
  const Question free = load_question(options);
  const planners::PlanChoice chosen = choose_plan(free, free.candidates.front());
  options.request.set = {"plan.forward_degree=" + std::to_string(chosen.plan.forward_degree)};
  const Question question = load_question(options);
  const planners::PlanChoice again = choose_plan(question, question.candidates.front());
  CHECK(again.plan == chosen.plan);
  CHECK(again.report.reason == chosen.report.reason);
}

TEST_CASE("a wrong knob is reported where the user wrote it") {
  Options options = shipped({"deepspeed_moe"});
  options.request.set = {"plan.forward_degree=2"};
  const Question question = load_question(options);
  CHECK_THROWS_WITH(choose_plan(question, question.candidates.front()),
                    Contains("--set plan.forward_degree=2: ") && Contains("contradicts plan.scope layer"));
}

TEST_CASE("a system that repeats tokens does so beside others, and alone it is the question's experiment") {
  const Question both = load_question(shipped({"deepspeed_moe", "tutel"}));
  CHECK_FALSE(both.experiment.parallelism.repeats_tokens());
  CHECK(std::ranges::count(both.notes,
                           "deepspeed_moe does without parallelism.sequence_parallel: each of the 4 ranks of mp "
                           "repeats the work on all tokens of their group, and dispatches them all") == 1);
  const std::unique_ptr<Backend> backend = make_backend("analytic");
  Evaluation evaluation(both, *backend);
  std::vector<bool> repeat;
  for (const Candidate& candidate : both.candidates)
    repeat.push_back(evaluation.evaluate(candidate, evaluation.choose(candidate)).schedule->groups.repeats_tokens());
  CHECK(repeat == std::vector{true, false});
  const Question alone = load_question(shipped({"deepspeed_moe"}));
  CHECK(alone.experiment.parallelism.repeats_tokens());
  CHECK(alone.repeats_for_system);
}

TEST_CASE("what does not fit has its missing bytes") {
  Options options = shipped({"tutel"});
  options.request.set = {"workload.batch=64", "plan.micro_batches=1"};
  const Question question = load_question(options);
  const SystemResult result = evaluate(question.experiment, "tutel", choose_plan(question, question.candidates.front()),
                                       *make_backend("analytic"));
  CHECK_FALSE(result.feasible);
  CHECK(result.missing == result.memory.peak - question.experiment.cluster.device.memory);
}

TEST_CASE("costs that somebody only assumed are named once each") {
  Experiment e;
  e.workload.dtype = DType::Fp32;
  Calibration& calibration = e.calibration.edit();
  calibration.name = "x";
  CollectiveCost cost;
  cost.collective = Collective::AllToAll;
  calibration.collectives = {cost, cost};
  calibration.memory.provenance.origin = Origin::Measured;
  std::vector<std::string> notes;
  add_assumptions(e, notes);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Matchers::EndsWith(": all_to_all (inter)"));
  calibration.collectives.clear();
  notes.clear();
  add_assumptions(e, notes);
  CHECK(notes.empty());
  Interference pair;
  pair.provenance.origin = Origin::Assumed;
  calibration.interference = {pair};
  add_assumptions(e, notes);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Matchers::EndsWith(": interference compute/inter"));
  e.overlap = Overlap::Ideal;
  notes.clear();
  add_assumptions(e, notes);
  CHECK(notes.empty());
  e.workload.causal = false;  // nobody measured a flash kernel without a mask
  add_assumptions(e, notes);
  CHECK(notes.size() == 1);
  e.workload.attention = AttentionKernel::Eager;
  notes.clear();
  add_assumptions(e, notes);
  CHECK(notes.empty());
}

TEST_CASE("backends by name") {
  CHECK(make_backend("analytic")->name() == "analytic");
  CHECK_THROWS_AS(make_backend("analytics"), InputError);
  CHECK_THROWS_WITH(make_backend("analytic", "p.xml"), Catch::Matchers::Contains("--platform is for"));
}

TEST_CASE("events slow a step down, and its plan is chosen without them") {
  Options options = shipped({"fsmoe"});
  Question question = load_question(options);
  const Candidate& candidate = question.candidates.front();
  const auto run = [&] {
    return evaluate(question.experiment, "fsmoe", choose_plan(question, candidate), *make_backend("analytic"));
  };
  const SystemResult before = run();
  // Everything at half speed for good takes less than twice as long: latencies stay.
  for (const char* resource : {"compute", "inter", "intra"})
    question.experiment.events.push_back({Seconds(0), {}, resource, .5});
  const SystemResult after = run();
  CHECK(after.plan == before.plan);
  CHECK(after.metrics.makespan < 2 * before.metrics.makespan);
  CHECK(after.metrics.makespan > 1.5 * before.metrics.makespan);
  question.experiment.events.front().at = after.metrics.makespan * 2;
  question.experiment.events.resize(1);
  CHECK(run().metrics.makespan / before.metrics.makespan == Approx(1).epsilon(1e-9));  // after the step
}

TEST_CASE("every system may choose micro-batches, and says what else") {
  Options options = shipped({"fastmoe", "tutel", "fsmoe", "mpipemoe", "dovetail"});
  options.request.set = {"workload.batch=4"};
  const auto choices = [&](std::size_t i) {
    const Question question = load_question(options);
    return choose_plan(question, question.candidates[i]).report.choices;
  };
  CHECK(choices(0) == "micro-batches and their order");
  CHECK(choices(1) == "degrees 1 2 4 8 (alike in both passes), micro-batches and their order");
  CHECK_THAT(choices(2), Contains("gradient slices, degrees ") && Contains("micro-batches and their order"));
  CHECK_THAT(choices(3), Contains("what is kept, sent or computed again"));
  CHECK_THAT(choices(4), Contains("every knob"));
  options.request.set.emplace_back("plan.micro_batches=2");  // now the same for all
  CHECK(choices(0) == "the order of micro-batches");
  CHECK(choices(1) == "degrees 1 2 4 8 (alike in both passes), the order of micro-batches");
  options.request.set.emplace_back("plan.pipeline_schedule=1f1b");
  CHECK(choices(0).empty());
}
