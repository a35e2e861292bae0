// SPDX-License-Identifier: Apache-2.0
// The unified planner against every shipped system's own, on the same evaluator.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/ways_to_fit.hpp"
#include "models/base/errors.hpp"
#include "models/files/input_file.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Question question_of(const std::string& cluster, const std::string& model, std::vector<std::string> set) {
  Options options;
  options.request.cluster = cluster;
  options.request.model = model;
  options.request.set = std::move(set);
  return load_question(options);
}

const Candidate& candidate_of(const Question& question, const std::string& system) {
  return *std::ranges::find(question.candidates, system, [](const Candidate& c) { return c.system.name; });
}

// None where the system cannot be built here.
std::optional<SystemResult> result_of(Evaluation& evaluation, const Candidate& candidate) {
  try {
    return evaluation.evaluate(candidate, evaluation.choose(candidate), Arenas::LeftOut);
  } catch (const InputError&) {
    return {};
  }
}

// Returns dovetail's result.
SystemResult check_never_worse(const Question& question) {
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  const SystemResult ours = result_of(evaluation, candidate_of(question, "dovetail")).value();
  CHECK(ours.feasible);
  for (const Candidate& candidate : question.candidates) {
    INFO(question.experiment.cluster.name << " " << question.experiment.model.name << " " << candidate.system.name);
    const std::optional<SystemResult> theirs = result_of(evaluation, candidate);
    if (theirs && theirs->feasible) CHECK(ours.metrics.makespan <= theirs->metrics.makespan * (1 + 1e-9));
  }
  return ours;
}

// 16 samples for each GPU, which must go by parts where memory is short.
Question with_memory(const std::string& cluster, const std::string& gibibytes) {
  Options options;
  options.request.cluster = cluster;
  options.request.model = "mixtral-8x7b";
  options.request.nodes = 2;
  options.request.set = {"workload.layers=1", "workload.batch=16", "cluster.device.memory=" + gibibytes + " GiB"};
  return load_question(options);
}

SystemResult choice_of(const Question& question, const std::string& system) {
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  return result_of(evaluation, candidate_of(question, system)).value();
}

}  // namespace

TEST_CASE("dovetail is never worse than a shipped system on any shipped cluster") {
  for (const std::string& cluster : known_names("clusters"))
    check_never_worse(question_of(cluster, "mixtral-8x7b", {"workload.layers=2"}));
  check_never_worse(question_of("fsmoe-testbed-b", "gpt2-xl-moe", {}));
  check_never_worse(question_of("fsmoe-testbed-a", "qwen1.5-moe-a2.7b", {"workload.layers=3"}));
}

TEST_CASE("dovetail is never worse in a deep pipeline, where it climbs by estimates") {
  for (const char* memory : {"80 GiB", "24 GiB"})
    check_never_worse(question_of("dgx-h100", "olmoe-1b-7b",
                                  {"cluster.nodes=4", "parallelism.pp=4", "workload.batch=32", "workload.sequence=4096",
                                   std::string("cluster.device.memory=") + memory}));
}

TEST_CASE("dovetail is never worse where memory asks for micro-batches, and less memory is never faster") {
  using Memories = std::vector<std::string>;
  for (const auto& [cluster, memories] :
       {std::pair<std::string, Memories>{"dgx-h100", {"5", "3.5", "2.5"}}, {"dgx-h100-rails", {"3.5"}}}) {
    Seconds with_more(0);
    for (const std::string& memory : memories) {
      INFO(cluster << " with " << memory << " GiB");
      const SystemResult ours = check_never_worse(with_memory(cluster, memory));
      CHECK(ours.metrics.makespan >= with_more * (1 - 1e-9));
      with_more = ours.metrics.makespan;
      // Bounds and the front are about this step, not about some of its micro-batches.
      if (ours.planner.proof)
        CHECK(ours.planner.proof->best.value() == Approx(ours.metrics.makespan.value()).epsilon(1e-9));
      for (const FrontPoint& point : ours.planner.front) CHECK(point.plan.micro_batches == ours.plan.micro_batches);
      // Plans that do not fit have no time that could be compared.
      CHECK_THAT(ours.planner.runner_up.value_or(""), !Catch::Contains("e+"));
    }
  }
  CHECK(choice_of(with_memory("dgx-h100", "3.5"), "dovetail").plan.micro_batches > 1);
}

TEST_CASE("memory_reuse takes more micro-batches where they save it from restoring") {
  Seconds with_more(0);
  for (const std::string memory : {"12", "11", "10.5"}) {
    const Question question =
        question_of("dgx-h100-2to1", "mixtral-8x7b",
                    {"workload.layers=4", "workload.batch=32", "cluster.device.memory=" + memory + " GiB"});
    const SystemResult result = choice_of(question, "mpipemoe");
    INFO(memory << " GiB: " << result.metrics.makespan.value());
    CHECK(result.metrics.makespan >= with_more * (1 - 1e-9));
    with_more = result.metrics.makespan;
  }
}

TEST_CASE("Where the user sets the number of micro-batches, the schedule is still the system's to choose") {
  const Question question =
      question_of("dgx-h100", "mixtral-8x22b",
                  {R"(parallelism={"pp": 2, "mp": 8, "esp": 8})", "workload.batch=16", "plan.micro_batches=8"});
  const SystemResult tutel = choice_of(question, "tutel");
  CHECK(tutel.feasible);  // gpipe needs 157 of the 80 GiB
  CHECK(tutel.plan.micro_batches == 8);
  CHECK(tutel.plan.pipeline_schedule == pipeline_schedule("1f1b"));
}

TEST_CASE("A gate that only some plans serve leaves the choice of micro-batches") {
  const Question question = question_of("dgx-h100", "mixtral-8x7b",
                                        {"parallelism.pp=2", "workload.layers=8", "workload.batch=8",
                                         "workload.gate.kind=soft_moe", "plan.encoding=dense"});
  CHECK(choice_of(question, "tutel").plan.micro_batches > 1);
}

TEST_CASE("dovetail is never worse by a simulator either, where the systems' choices are its rivals") {
  if (!is_built("simgrid")) return;
  Question question = question_of("fsmoe-testbed-b", "mixtral-8x7b", {"workload.layers=2"});
  using enum InterferenceClass;
  question.experiment.calibration.edit().interference = {{Compute, Inter, .9, .7, {}}, {Inter, Intra, .8, .6, {}}};
  const std::unique_ptr<Backend> simgrid = make_backend("simgrid");
  const planners::Evaluator evaluate = [&](const Plan& plan) {
    const auto schedule = std::make_shared<const Schedule>(build_schedule(question.experiment, plan));
    return metrics(*schedule, simgrid->run(price(schedule, question.experiment))).makespan;
  };
  std::vector<Plan> rivals;
  const Candidate* unified = nullptr;
  for (const Candidate& c : question.candidates)
    if (c.system.name == "dovetail")
      unified = &c;
    else if (!test::needs_micro_batches(c.system.plan))
      rivals.push_back(planners::find_planner(c.system.planner.name)
                           .choose({question.experiment, c.system.plan, c.system.planner}, evaluate)
                           .plan);
  REQUIRE(unified != nullptr);
  planners::PlanningTask task{question.experiment, unified->system.plan, unified->system.planner};
  task.rivals = rivals;
  const Seconds ours = evaluate(planners::find_planner("dovetail").choose(task, evaluate).plan);
  for (const Plan& rival : rivals) CHECK(ours <= evaluate(rival) * (1 + 1e-12));
}

TEST_CASE("what makes a plan fit is tried, and said with its bytes") {
  Question question = question_of("fsmoe-testbed-b", "mixtral-8x7b", {"workload.batch=16"});
  const Plan plan = choose_plan(question, candidate_of(question, "tutel")).plan;
  const Bytes peak = planners::peak_memory(question.experiment, plan);
  question.experiment.cluster.device.memory = peak * .8;
  question.request.set.push_back("cluster.device.memory=" + std::to_string((peak * .8).value() / 1073741824) + " GiB");
  const std::vector<std::string> ways = ways_to_fit(question, plan);
  REQUIRE(ways.size() >= 3);
  const auto says = [&](const std::string& what) {
    return std::ranges::any_of(ways, [&](const std::string& way) { return way.find(what) != std::string::npos; });
  };
  CHECK(says("plan.restore="));
  CHECK(says("plan.micro_batches="));
  CHECK(says("--set workload.batch=8"));
  for (const std::string& way : ways) CHECK_THAT(way, Catch::Contains(" bytes) less, "));
}
