// SPDX-License-Identifier: Apache-2.0
#include "planners/estimated_steps.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "planners/analytic_evaluator.hpp"
#include "planners/contest.hpp"
#include "planners/outlook.hpp"
#include "planners/pipeline_choice.hpp"
#include "planners/registry.hpp"
#include "planners/search/climb.hpp"
#include "planners/search/plan_search.hpp"
#include "tests/planners/deep_pipelines.hpp"

using namespace dovetail;
using namespace dovetail::planners;
using Catch::Contains;

namespace {

constexpr Pipeline in_32{PipelineSchedule::OneForwardOneBackward, 32};

Plan piped(Plan plan = {}) {
  plan.scope = Scope::Moe;
  set_pipeline(plan, in_32);
  return plan;
}

PlanningTask task_of(const Experiment& e, const std::string& system) {
  FilesRead files;
  const System loaded = load_system(system, files);
  return {e, loaded.plan, loaded.planner};
}

PlanChoice choice_of(const PlanningTask& task, const std::vector<Pipeline>& ways) {
  return choose_with_pipeline(find_planner(task.choices.name), task, ways);
}

}  // namespace

TEST_CASE("Steps of many layers x samples are estimated, others are not") {
  EstimatedSteps steps;
  const Experiment e = test::olmoe_in_stages(4, 32);  // 16 layers x 32 samples = 512
  REQUIRE(steps.of(e, piped()));
  CHECK(steps.of(e, piped())->time / PredictedSteps().time(e, piped()) == Approx(1).epsilon(.05));
  CHECK(!steps.of(test::olmoe_in_stages(4, 31), piped()));
  Experiment forward = e;
  forward.workload.phases = Phases::ForwardOnly;
  CHECK(!steps.of(forward, piped()));
  Plan refused = piped();
  refused.forward_degree = 1 << 20;
  CHECK(!steps.of(e, refused));
  const Experiment flat = test::olmoe_in_stages(1, 32);
  CHECK(!steps.of(flat, Plan()));  // one micro-batch
  Plan two;
  two.micro_batches = 2;
  CHECK(steps.of(flat, two));
}

TEST_CASE("A contest looks at the plans that estimates promise most of, and says how many it left out") {
  const Experiment e = test::olmoe_in_stages(4, 32);
  PlanningTask task{e, piped(), {}};
  int asked = 0;
  const Evaluator evaluate = [&](const Plan& plan) {
    ++asked;
    return task.steps->time(e, plan);
  };
  std::vector<Plan> plans;
  for (int degree = 1; degree <= 16; ++degree) {
    Plan& plan = plans.emplace_back(piped());
    plan.forward_degree = plan.backward_degree = degree;
  }
  Contest all(evaluate);
  all.propose(plans);
  REQUIRE(asked == 16);
  CHECK(all.left_out() == 0);
  task.estimates = std::make_shared<EstimatedSteps>();
  asked = 0;
  Contest few(task, evaluate);
  few.propose(plans);
  CHECK(asked <= 6);
  CHECK(few.left_out() == 16 - static_cast<std::size_t>(asked));
  CHECK(few.best_time() / all.best_time() == Approx(1).epsilon(.01));
  CHECK_THAT(few.finish("any", "the fastest").report.reason, Contains("less promising by estimate were left out"));
}

TEST_CASE("Planners choose by estimates about as well as by predicting every plan") {
  for (const int stages : {1, 4}) {
    const Experiment e = test::olmoe_in_stages(stages, 32);
    for (const char* system : {"fsmoe", "tutel_adaptive", "mpipemoe", "pipemoe", "fastermoe", "megatron_lm"}) {
      PlanningTask task = task_of(e, system);
      // A single micro-batch is not estimated.
      const std::vector<Pipeline> in_8{{PipelineSchedule::OneForwardOneBackward, 8}, {PipelineSchedule::Gpipe, 8}},
          ways = stages == 1 ? in_8 : pipelines(task);
      const PlanChoice all = choice_of(task, ways);
      task.estimates = std::make_shared<EstimatedSteps>();
      const PlanChoice few = choice_of(task, ways);
      INFO(stages << " stages, " << system << ": " << all.report.reason << "\n" << few.report.reason);
      CHECK(task.steps->time(e, few.plan) / task.steps->time(e, all.plan) <= 1.01);
      CHECK(fits(few.plan, task) == fits(all.plan, task));
      CHECK(few.report.evaluations <= all.report.evaluations);
    }
  }
}

TEST_CASE("A planner's outlook is that of its best base, and of what fits before what does not") {
  Experiment e = test::olmoe_in_stages(4, 32);
  PlanningTask task = task_of(e, "mpipemoe");
  const Planner& planner = find_planner("memory_reuse");
  CHECK(!outlook(planner, task, {in_32}));
  task.estimates = std::make_shared<EstimatedSteps>();
  const std::optional<StepEstimate> one = outlook(planner, task, {in_32});
  REQUIRE(one);
  CHECK(outlook(planner, task, {in_32, {PipelineSchedule::OneForwardOneBackward, 8}})->time <= one->time);
  CHECK(one->time <= task.estimate(piped(task.base))->time);
  // With less memory than the fastest way holds, another one is the best.
  e.cluster.device.memory = one->held * .999;
  const std::optional<StepEstimate> smaller = outlook(planner, task, pipelines(task));
  REQUIRE(smaller);
  CHECK(smaller->held < one->held);
}

TEST_CASE("A climb ends at a plan that is faster and fits") {
  Experiment e = test::olmoe_in_stages(4, 32);
  PlanningTask task = task_of(e, "dovetail");
  task.estimates = std::make_shared<EstimatedSteps>();
  REQUIRE(climbs(task));
  const PlanSpace space = plan_space(task);
  Plan slow = piped();
  slow.forward_degree = slow.backward_degree = 16;
  const Bytes limit = e.cluster.device.memory;
  const std::vector<Plan> found = climbed(task, space, {slow}, limit);
  REQUIRE(!found.empty());
  const Plan& top = found.front();
  CHECK(allowed(task, top));
  CHECK(task.steps->time(e, top) < task.steps->time(e, slow) * .95);
  CHECK(std::ranges::count(found, slow) == 0);
  const Bytes tight = task.estimate(top)->peak * .9;
  const std::vector<Plan> small = climbed(task, space, {slow}, tight);
  REQUIRE(!small.empty());
  CHECK(task.estimate(small.front())->peak <= tight);
  task.estimates.reset();
  CHECK(climbed(task, space, {slow}, limit).empty());
}
