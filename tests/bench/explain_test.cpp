// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/explain.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "bench/pipeline/evaluate.hpp"
#include "bench/pipeline/repeating_steps.hpp"
#include "bench/pipeline/tune.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/results/ranking.hpp"
#include "models/time/analytic_backend.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Report compared(const std::vector<std::string>& systems, const std::vector<std::string>& set = {}) {
  Options options;
  options.request.cluster = "fsmoe-testbed-b";
  options.request.model = "mixtral-8x7b";
  options.request.set = set;
  options.systems = systems;
  const Question question = load_question(options);
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  Report report{"compare", question.experiment, {}, {}, {}, {}};
  for (const Candidate& candidate : question.candidates)
    report.results.push_back(evaluation.evaluate(candidate, evaluation.choose(candidate)));
  return report;
}

const Alternative* alternative(const Explanation& explanation, OtherChoice choice) {
  const auto found = std::ranges::find(explanation.alternatives, choice, &Alternative::choice);
  return found == explanation.alternatives.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("explain: the figures are those of the results") {
  const Report report = compared({"tutel", "fsmoe", "fastmoe"});
  const Explanation explanation = *explain(report);
  const SystemResult& best = *fastest(report);
  CHECK(explanation.name == best.system);
  CHECK(explanation.best.metrics.makespan.value() == Approx(best.metrics.makespan.value()));
  REQUIRE(explanation.next);
  CHECK(explanation.next->name == "tutel");
  CHECK(explanation.next->step.metrics.makespan.value() == Approx(report.results[0].metrics.makespan.value()));
  CHECK(!explanation.next->changes.empty());
  for (const WithoutPart& part : explanation.without) CHECK(part.step < best.metrics.makespan);
  CHECK(std::ranges::is_sorted(explanation.without, {}, &WithoutPart::step));
  REQUIRE(alternative(explanation, OtherChoice::Uncut) != nullptr);
  CHECK(alternative(explanation, OtherChoice::KeepRows) == nullptr);
  CHECK(alternative(explanation, OtherChoice::MoreMicroBatches) == nullptr);
}

TEST_CASE("explain: other choices are those plans evaluated") {
  const Report report = compared({"fsmoe"}, {"plan.recompute=moe", "plan.forward_degree=4", "plan.backward_degree=4"});
  const Explanation explanation = *explain(report);
  AnalyticBackend backend;
  const auto step_of = [&](const Plan& plan) {
    return evaluate(report.experiment, "", {plan, {}}, backend).metrics.makespan.value();
  };
  Plan kept = report.results.front().plan, uncut = kept;
  kept.recompute = {};
  uncut.forward_degree = uncut.backward_degree = 1;
  uncut.backward_degrees.clear();
  CHECK(alternative(explanation, OtherChoice::KeepRows)->step.metrics.makespan.value() == Approx(step_of(kept)));
  CHECK(alternative(explanation, OtherChoice::Uncut)->step.metrics.makespan.value() == Approx(step_of(uncut)));
}

TEST_CASE("explain: a step that repeats itself is told by few of its micro-batches, as the whole steps are") {
  Options options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 1;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=4", "workload.batch=48", "plan.micro_batches=48",
                         "parallelism.pp=2",  "parallelism.dp=4",  "parallelism.ep=4"};
  options.systems = {"megatron_lm"};
  const Question question = load_question(options);
  const Experiment& e = question.experiment;
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  const planners::PlanChoice choice = evaluation.choose(question.candidates.front());
  Report report{"simulate", e, {}, {}, {}, {}};
  report.results = {evaluation.evaluate(question.candidates.front(), choice)};
  const SystemResult& whole = report.results.front();

  const std::optional<planners::StepPrediction> few = repeating_step(e, choice.plan);
  REQUIRE(few);
  CHECK(2 * few->built() < 48);
  planners::StepModel steps;
  const std::optional<SystemResult> told = result_of_step(e, whole.system, choice, steps);
  REQUIRE(told);
  const auto same = [](auto a, auto b) { CHECK(a.value() == Approx(b.value()).epsilon(1e-9)); };
  same(told->metrics.makespan, whole.metrics.makespan);
  same(told->metrics.forward, whole.metrics.forward);
  same(told->metrics.exposed_communication, whole.metrics.exposed_communication);
  same(told->metrics.launch_bound, whole.metrics.launch_bound);
  same(told->lower_bound, whole.lower_bound);
  same(told->memory.peak, whole.memory.peak);

  const Explanation explanation = *explain(report);
  CHECK(explanation.best.metrics.makespan == whole.metrics.makespan);
  const Alternative* more = alternative(explanation, OtherChoice::MoreMicroBatches);
  REQUIRE(more != nullptr);
  Plan twice = choice.plan;
  twice.micro_batches *= 2;
  const SystemResult longer = evaluate(planners::with_fewer(e, 48, 96), "", {twice, {}}, backend);
  same(more->step.metrics.makespan, longer.metrics.makespan);
  same(more->step.metrics.waiting, longer.metrics.waiting);
  same(more->step.peak, longer.memory.peak);
  REQUIRE(explanation.without.size() > 2);
  for (const WithoutPart& without : explanation.without) {
    PricedSchedule priced = price(whole.schedule, e);
    make_free(without.part, priced);
    std::vector<double> scratch;
    same(without.step, analytic_makespan(priced, scratch));
  }
}

TEST_CASE("explain: where the host limits, what graphs, larger micro-batches and fused kernels would gain") {
  Options options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 1;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=2", "workload.batch=8", "plan.micro_batches=8", "plan.all_to_all=linear"};
  options.systems = {"megatron_lm"};
  options.explain = true;
  const Question question = load_question(options);
  AnalyticBackend backend;
  Evaluation evaluation(question, backend);
  const Candidate& candidate = question.candidates.front();
  Report report{"simulate", question.experiment, {}, {}, {}, {}};
  report.results.push_back(evaluation.evaluate(candidate, evaluation.choose(candidate)));
  add_explanation(options, report);
  const Explanation& explanation = *report.explanation;
  const Metrics& m = explanation.best.metrics;
  REQUIRE(m.launch_bound > .01 * m.makespan);
  for (const OtherChoice choice : {OtherChoice::Graphs, OtherChoice::LargerMicroBatches, OtherChoice::FusedKernels}) {
    INFO(name_in(other_choice_names, choice));
    REQUIRE(alternative(explanation, choice) != nullptr);
    CHECK(alternative(explanation, choice)->step.metrics.makespan <= m.makespan);
  }
  CHECK(alternative(explanation, OtherChoice::FusedKernels)->step.metrics.makespan < .99 * m.makespan);
}

TEST_CASE("explain: measured results have none") {
  Report report = compared({"tutel"});
  report.results.front().timeline.kind = ResultKind::Measured;
  CHECK(!explain(report));
  report.results.clear();
  CHECK(!explain(report));
}

TEST_CASE("explain: shares of computation, exposed communication and waiting fill the step") {
  const std::vector<std::string> in_stages{"workload.layers=4", "parallelism.pp=2", "workload.batch=4"};
  for (const auto& set : {std::vector<std::string>{}, in_stages})
    for (const SystemResult& result : compared({"fastmoe", "fsmoe", "mpipemoe"}, set).results) {
      const Metrics& m = result.metrics;
      CHECK((m.computation + m.exposed_communication + m.waiting).value() == Approx(m.makespan.value()));
      CHECK(m.hidden <= m.computation);
    }
}

TEST_CASE("explain: of tune's best, the next best is another layout") {
  TuneOptions options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 2;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = {"workload.layers=6", "parallelism.pp=2"};
  options.global_batch = 64;
  options.sequence = 2048;
  options.draws = 0;
  options.explain = true;
  options.systems = {"tutel"};
  const Report report = tune(load_tune_question(options), options, {});
  REQUIRE(report.explanation);
  CHECK(report.explanation->best.metrics.makespan == report.results[0].metrics.makespan);
  CHECK(report.explanation->next->step.metrics.makespan == report.results[1].metrics.makespan);
  CHECK(report.explanation->next->tied == (std::ranges::count(tied_fastest(report), &report.results[1]) == 1));
  CHECK(alternative(*report.explanation, OtherChoice::MoreMicroBatches) != nullptr);
  options.explain = false;
  CHECK(!tune(load_tune_question(options), options, {}).explanation);
}

TEST_CASE("explain: pairs are the same plan in pairs or without, evaluated, and what decides is changed alone") {
  const std::string system = GENERATE("megatron_lm", "megatron_ep_overlap");
  const Report report = compared({system}, {"workload.dtype=fp16", "workload.batch=8", "plan.micro_batches=8"});
  const Explanation explanation = *explain(report);
  const SystemResult& result = report.results.front();
  REQUIRE(explanation.pairs);
  const PairsExplained& pairs = *explanation.pairs;
  CHECK(pairs.chosen == (system == "megatron_ep_overlap"));
  REQUIRE(pairs.other);
  const Experiment e = as_run(report.experiment, result);
  const auto step = [&](bool paired, const std::function<void(Plan&)>& change = {}) {
    Plan plan = result.plan;
    plan.scope = paired ? Scope::Batch : Scope::Layer;
    if (!paired) plan.delay_weight_gradient = DelayedWeights::None;
    if (!paired) plan.pair_order = PairOrder::Alternate;
    if (change) change(plan);
    std::vector<double> scratch;
    return analytic_makespan(price_plan(e, plan), scratch).value();
  };
  CHECK(pairs.other->metrics.makespan.value() == Approx(step(!pairs.chosen)).epsilon(1e-6));
  const auto of = [&](PairLimit limit) {
    const auto found = std::ranges::find(pairs.otherwise, limit, &PairStep::limit);
    REQUIRE(found != pairs.otherwise.end());
    return *found;
  };
  const PairStep connections = of(PairLimit::Connections);
  const auto in_one = [](Plan& plan) { plan.one_connection = true; };
  CHECK(connections.paired.value() == Approx(step(true, in_one)).epsilon(1e-6));
  CHECK(connections.apart.value() == Approx(step(false, in_one)).epsilon(1e-6));
  CHECK(connections.paired > of(PairLimit::Multiprocessors).paired);
}

TEST_CASE("explain: pairs are not spoken of where micro-batches have no exchanges or are alone") {
  CHECK(!explain(compared({"tutel"}, {"plan.micro_batches=1"}))->pairs);
  CHECK(!explain(compared({"megatron_lm"}, {"workload.batch=8", "plan.micro_batches=8", "parallelism.ep=1"}))->pairs);
}
