// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/layouts/layout_search.hpp"
#include "planners/search/plan_search.hpp"
#include "planners/steps/step_model.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "planners/task/outlook.hpp"
#include "planners/task/pipeline_choice.hpp"
#include "tests/planners/deep_pipelines.hpp"
#include "tests/planners/layout_questions.hpp"

using namespace dovetail;
using namespace dovetail::planners;
using Catch::Contains;

namespace {

constexpr Pipeline in_32{pipeline_schedule("1f1b"), 32};

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
  const auto estimate = [](const Experiment& e, const Plan& plan, bool by_estimate = true) {
    PlanningTask task{e, plan, {}};
    task.by_estimate = by_estimate;
    return task.estimate(plan);
  };
  const Experiment e = test::olmoe_in_stages(4, 32);  // 16 layers x 32 samples = 512
  REQUIRE(estimate(e, piped()));
  CHECK(estimate(e, piped())->time / StepModel().time(e, piped()) == Approx(1).epsilon(.05));
  CHECK(!estimate(e, piped(), false));
  CHECK(!estimate(test::olmoe_in_stages(4, 31), piped()));
  Experiment forward = e;
  forward.workload.phases = Phases::ForwardOnly;
  CHECK(!estimate(forward, piped()));
  Plan refused = piped();
  refused.forward_degree = 1 << 20;
  CHECK(!estimate(e, refused));
  const Experiment flat = test::olmoe_in_stages(1, 32);
  CHECK(!estimate(flat, Plan()));  // one micro-batch
  Plan two;
  two.micro_batches = 2;
  CHECK(estimate(flat, two));
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
  task.by_estimate = true;
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
      const std::vector<Pipeline> in_8{{pipeline_schedule("1f1b"), 8}, {pipeline_schedule("gpipe"), 8}},
          ways = stages == 1 ? in_8 : pipelines(task);
      const PlanChoice all = choice_of(task, ways);
      task.by_estimate = true;
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
  task.by_estimate = true;
  const std::optional<StepEstimate> one = outlook(planner, task, {in_32});
  REQUIRE(one);
  CHECK(outlook(planner, task, {in_32, {pipeline_schedule("1f1b"), 8}})->time <= one->time);
  CHECK(one->time <= task.estimate(piped(task.base))->time);
  // With less memory than the fastest way holds, another one is the best.
  e.cluster.device.memory = one->held * .999;
  const std::optional<StepEstimate> smaller = outlook(planner, task, pipelines(task));
  REQUIRE(smaller);
  CHECK(smaller->held < one->held);
}

TEST_CASE("The unified planner finds what a search over layouts finds on the same layout") {
  Experiment e = test::olmoe_in_stages(4, 32);
  PlanningTask task = task_of(e, "dovetail");
  task.by_estimate = true;
  REQUIRE(climbs(task));
  const auto of_layouts = [&] {
    LayoutSearch search({e,
                         {.global_batch = e.workload.batch * e.parallelism.dp,
                          .pp = 4,
                          .mp = e.parallelism.mp,
                          .ep = e.parallelism.ep,
                          .esp = e.parallelism.esp},
                         e.cluster.device.memory,
                         {},
                         {},
                         find_planner});
    return search.best({.systems = test::shipped_systems()}, 1).front();
  };
  const auto of_planner = [&] { return find_planner("dovetail").choose(task, task_evaluator(task)).plan; };
  const LaidOutPlan found = of_layouts();
  const Plan chosen = of_planner();
  CHECK(task.steps->time(e, chosen) / found.time == Approx(1).epsilon(.005));
  // With so little memory that this plan does not fit, both recompute or keep less.
  e.cluster.device.memory = task.steps->peak(e, chosen) * .8;
  const LaidOutPlan smaller = of_layouts();
  task.steps = std::make_shared<StepModel>();
  const Plan tight = of_planner();
  CHECK(task.steps->peak(e, tight) <= e.cluster.device.memory);
  // They begin from different plans, and in so large a space not every climb ends at the same one.
  CHECK(task.steps->time(e, tight) / smaller.time == Approx(1).epsilon(.02));
}
