// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/online.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "bench/pipeline/evaluators.hpp"
#include "bench/pipeline/host_scale.hpp"
#include "models/base/errors.hpp"
#include "models/question/volumes.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "reports/data/online_report.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

// Seven layers of Mixtral on FSMoE's testbed B, or 32 experts on 32 GPUs where messages cross nodes.
Question question(const std::string& system = "tutel", bool across = false) {
  Options options;
  options.request.cluster = across ? "ndv4" : "fsmoe-testbed-b";
  options.request.model = across ? "swinv2-moe-b" : "mixtral-8x7b";
  if (across) {
    options.request.nodes = 4;
    options.request.set = {"parallelism.mp=1", "parallelism.esp=1", "workload.sequence=4096", "workload.layers=4"};
  }
  options.systems = {system};
  return load_question(options);
}

std::vector<std::string> names(const std::vector<OnlineStrategy>& strategies) {
  std::vector<std::string> all;
  for (const OnlineStrategy& each : strategies) all.push_back(each.name);
  return all;
}

TraceStep factor(double f) {
  TraceStep step;
  step.capacity_factor = f;
  return step;
}

// Factors between 1 and 4.38 that come back.
std::vector<Experiment> wave(const Experiment& e, int steps) {
  std::vector<Experiment> at;
  for (int i = 0; i < steps; ++i)
    at.push_back(at_step(e, factor(std::round(20 * (2.69 - 1.69 * std::cos(i * .021))) / 20)));
  return at;
}

}  // namespace

TEST_CASE("A step changes what it gives, and its load follows") {
  const Experiment e = question().experiment;  // batch 1, sequence 256, top 2 of 8, f 1.2
  CHECK(size_of(e, at_step(e, factor(1.5))).load() == 1.5);
  TraceStep larger;
  larger.batch = 3;
  larger.sequence = 128;
  CHECK(at_step(e, larger).workload.sequence == 128);
  CHECK(size_of(e, at_step(e, larger)).tokens == 1.5);          // 3 x 128 over 1 x 256
  CHECK(size_of(e, at_step(e, larger)).load() == Approx(1.8));  // at f 1.2
  TraceStep one = factor(2);
  one.top_k = 1;
  CHECK(size_of(e, at_step(e, one)).load() == 1);  // as many rows as f = 1 of top 2
  // All tokens choose expert 0 and one other: f = 0 must take all 64 tokens of a rank. k f T / E = 64: f = 4.
  TraceStep hot = factor(0);
  hot.layers = {{{8, 8, 0, 0, 0, 0, 0, 0}}};
  CHECK(layer_volumes(at_step(e, hot)).capacity == 64);
  CHECK(size_of(e, at_step(e, hot)).load() == 4);
  hot.layers = {{{1, 2, 3}}};
  CHECK_THROWS_WITH(at_step(e, hot), Contains("3 columns"));
}

TEST_CASE("The strategies of a system, as each online planner sees them") {
  std::vector<std::string> notes;
  using List = std::vector<std::string>;
  const Question small = question(), across = question("tutel", true);
  const auto of = [&](const Question& q, const char* planner) {
    return names(online_strategies(q, planner, {q.experiment}, notes));
  };
  CHECK(of(across, "bucketed_search") == List{"linear 1", "linear 2", "linear 4", "linear 8", "two_dimensional 1",
                                              "two_dimensional 2", "two_dimensional 4", "two_dimensional 8"});
  CHECK(of(small, "granularity_search") == List{"1", "2", "4", "8"});
  CHECK(of(across, "parallelism_router") == List{"ep"});
  CHECK(of(across, "mpipemoe_search") == List{"1", "2", "4", "8"});
  CHECK(notes.empty());
  CHECK(of(small, "parallelism_router") == List{"ep", "ep_mp 2", "ep_mp 4"});
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("ep_dp left out: its largest step needs"));
  // One rank of the experts' group is on each node: the all-to-all has one step whatever its name.
  CHECK(of(small, "bucketed_search") == List{"linear 1", "linear 2", "linear 4", "linear 8"});
  // Experts of four GPUs: each sharding with each all-to-all and degree. The exchanges of ep_mp are among all ranks.
  notes.clear();
  const List together = of(small, "joint_search");
  CHECK(together.size() == 4 + 2 * 8);
  CHECK(List(together.begin(), together.begin() + 4) ==
        List{"ep linear 1", "ep linear 2", "ep linear 4", "ep linear 8"});
  CHECK(std::ranges::count(together, "ep_mp 4 two_dimensional 8") == 1);
  CHECK(notes.size() == 4);  // ep_dp, which does not fit
  // C = ceil(2 * .1 * 64 / 8) = 2 rows are not cut into 4.
  notes.clear();
  CHECK(names(online_strategies(small, "granularity_search", {at_step(small.experiment, factor(.1))}, notes)) ==
        List{"1", "2"});
  CHECK(notes.size() == 2);
}

TEST_CASE("A planner is not given the state of another experiment, plan or clock") {
  const Question q = question();
  std::vector<std::string> notes;
  const auto strategies = online_strategies(q, "bucketed_search", {q.experiment}, notes);
  const auto make = [&](const Experiment& e, const std::vector<OnlineStrategy>& s, const char* clock) {
    return online_planner("bucketed_search", e, s, .5, clock);
  };
  const JsonFile state = JsonFile::parse(make(q.experiment, strategies, "analytic")->state(), "s.json");
  Experiment other_factor = q.experiment, other_size = q.experiment;
  other_factor.workload.capacity_factor = 3;  // what steps change
  other_size.model.hidden *= 2;
  auto other_plans = strategies;
  other_plans[1].plan.grad_sync = GradSync::WithDense;
  CHECK_NOTHROW(make(other_factor, strategies, "analytic")->restore(state));
  CHECK_THROWS_WITH(make(other_size, strategies, "analytic")->restore(state), Contains("/context"));
  CHECK_THROWS_WITH(make(q.experiment, other_plans, "analytic")->restore(state), Contains("/context"));
  CHECK_THROWS_WITH(make(q.experiment, strategies, "reported")->restore(state), Contains("/context"));
}

TEST_CASE("Over a wave of capacity factors with 2 % noise, bucketed_search loses less than 1 % and ends below .5 %") {
  for (bool across : {false, true}) {
    const Question q = question("tutel", across);
    const auto at = wave(q.experiment, 2000);
    OnlineRun run;
    run.strategies = online_strategies(q, "bucketed_search", at, run.notes);
    const auto planner = online_planner("bucketed_search", q.experiment, run.strategies, .5, "analytic");
    const Replay how{[](const Experiment& e) { return planners::analytic_evaluator(e); }, .02, 5, Talk::Quiet};
    run.steps = replay(q.experiment, at, run.strategies, *planner, how);
    INFO((across ? "across nodes" : "testbed B")
         << ": " << reports::regret(run) << ", last " << reports::regret(run, 1700));
    CHECK(reports::regret(run) > 0);
    CHECK(reports::regret(run) <= .01);
    CHECK(reports::regret(run, 1700) <= .005);
    for (std::size_t s = 0; s < run.strategies.size(); ++s)
      if (across) CHECK(reports::regret(run) < reports::regret_of(run, s) + .005);
    // The same seed gives the same run.
    const auto again = online_planner("bucketed_search", q.experiment, run.strategies, .5, "analytic");
    replay(q.experiment, at, run.strategies, *again, how);
    CHECK(again->state() == planner->state());
  }
}

TEST_CASE("Steps really run: what the planner learns from and is judged by was measured") {
  Question q = question();
  exec::HostScale scale;
  scale.ranks = 2;
  scale.tokens_per_rank = 64;
  scale.hidden = scale.expert_hidden = scale.head_size = 32;
  scale_down(q, scale, 0);
  const std::vector at{at_step(q.experiment, factor(1)), at_step(q.experiment, factor(2)),
                       at_step(q.experiment, factor(1))};
  std::vector<std::string> notes;
  const auto strategies = online_strategies(q, "bucketed_search", at, notes);
  const auto planner = online_planner("bucketed_search", q.experiment, strategies, .5, "host");
  const Replay how{[](const Experiment& e) { return make_evaluator("host", e, {Seconds(.05), 0}); }, 0, 0, Talk::Quiet};
  const std::vector<OnlineStep> steps = replay(q.experiment, at, strategies, *planner, how);
  REQUIRE(steps.size() == at.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const planners::Evaluator predict = planners::analytic_evaluator(at[i]);
    REQUIRE(steps[i].times.size() == strategies.size());
    CHECK(steps[i].reported == steps[i].time());
    for (std::size_t s = 0; s < strategies.size(); ++s)  // held ops do not end early
      CHECK(steps[i].times[s] > predict(strategies[s].plan) * .99);
  }
}
