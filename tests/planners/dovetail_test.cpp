// SPDX-License-Identifier: Apache-2.0
// The unified planner against the oracle of the same stated space, on random experiments with random knobs held.
#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "bench/examples/custom_moe/nodes_first.hpp"
#include "bench/examples/custom_moe/reversed_order.hpp"
#include "bench/examples/custom_moe/tanh_expert.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/search/plan_search.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "tests/planners/held_knobs.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

constexpr long without_end = 1'000'000'000;

struct Case {
  Experiment experiment;
  Plan base;
  std::function<void(Plan&)> hold;

  PlanningTask task(std::vector<int> degrees) const {
    PlanningTask task{experiment, base, {"dovetail", std::move(degrees), false, SearchSpace::Plans}};
    task.hold = hold;
    return task;
  }
};

// With up to `most` points.
std::optional<Case> random_case(test::Random& random, double most) {
  Case c{test::random_experiment(random), {}, {}};
  if (random() % 2 == 0) test::weigh_bytes(random, c.experiment);
  Plan held = test::random_legal_plan(random, c.experiment);
  held.host_sync = false;
  held.delay_weight_gradient = DelayedWeights::None;  // which bounds do not know
  c.base.scope = Scope::Moe;
  c.base.virtual_stages = held.virtual_stages;
  c.base.encoding = c.experiment.workload.gate.kind == GateKind::SoftMoe ? Encoding::Dense : Encoding::Sparse;
  c.hold = test::hold_some(held, static_cast<unsigned>(random()) | static_cast<unsigned>(random()));
  c.hold(c.base);
  if (c.base.scope == Scope::Layer || c.base.scope == Scope::Batch) return std::nullopt;  // the space has neither
  const PlanningTask task = c.task({1, 2, 3});
  try {
    if (const double points = plan_space(task).points(); points > most || points < 2) return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;  // no degree goes with what is held
  }
  return c;
}

// The best of all plans; nothing where none can be built.
std::optional<PlanChoice> oracle_of(const PlanningTask& task, const Evaluator& evaluate) try {
  return find_planner("exhaustive").choose(task, evaluate);
} catch (const InputError&) {
  return std::nullopt;
}

std::string describe(const Case& c, const Plan& plan) {
  return test::describe(c.experiment, plan);
}

}  // namespace

TEST_CASE("dovetail: no regret against the oracle, and the bound is one") {
  const bool interfering = GENERATE(false, true);
  CAPTURE(interfering);
  test::Random random(7), interference(8);
  double best_of_all = 0;
  int tried = 0, proven = 0;
  while (tried < test::cases(1000)) {
    std::optional<Case> c = random_case(random, 400);
    if (!c) continue;
    if (interfering) test::slow_each_other(c->experiment.calibration.edit(), interference);
    const PlanningTask task = c->task({1, 2, 3});
    const Evaluator evaluate = analytic_evaluator(c->experiment);
    const std::optional<PlanChoice> oracle = oracle_of(task, evaluate);
    if (!oracle) continue;
    ++tried;
    const double best = evaluate(oracle->plan).value();
    const SearchResult found = search_plans(task, {}, Bytes(1e18), without_end);
    INFO("case " << tried << ": oracle " << describe(*c, oracle->plan));
    REQUIRE_FALSE(found.plans.empty());
    INFO("ours " << describe(*c, found.plans.front().plan));
    CHECK(found.plans.front().time.value() <= best * (1 + 1e-9));
    // Faster at times, by .5 % in one of 20,000 cases: it also looks at degrees with slices that were cut for others.
    CHECK(found.plans.front().time.value() >= best * .99);
    CHECK(found.proof.bound.value() <= best * (1 + 1e-9));
    if (found.proof.optimal()) ++proven;
    best_of_all += best;
  }
  CHECK(best_of_all > 0);
  CHECK(proven == tried);  // nothing cut the searches short
}

namespace {

// The plan that is found, which is as good as the oracle's and not below the bound; none where no plan can be built.
std::optional<Plan> without_regret(const Case& c) {
  const PlanningTask task = c.task({1, 2, 3});
  const Evaluator evaluate = analytic_evaluator(c.experiment);
  const std::optional<PlanChoice> oracle = oracle_of(task, evaluate);
  if (!oracle) return std::nullopt;
  INFO("oracle " << describe(c, oracle->plan));
  const Seconds best = evaluate(oracle->plan);
  const SearchResult found = search_plans(task, {}, Bytes(1e18), without_end);
  REQUIRE_FALSE(found.plans.empty());
  CHECK(found.plans.front().time <= best * (1 + 1e-9));
  CHECK(found.proof.bound <= best * (1 + 1e-9));
  return found.plans.front().plan;
}

}  // namespace

TEST_CASE("dovetail: no regret with models that have no experts") {
  test::Random random(9);
  for (int tried = 0; tried < test::cases(100); ++tried) {
    Case c{test::without_experts(test::random_experiment(random)), {}, [](Plan&) {}};
    c.base.scope = Scope::Moe;
    INFO(tried << ": " << describe(c, c.base));
    const std::optional<Plan> found = without_regret(c);
    REQUIRE(found);
    CHECK(found->forward_degree == 1);
  }
}

TEST_CASE("dovetail: no regret with layers of multi-token prediction") {
  test::Random random(10);
  for (int tried = 0; tried < test::cases(60);) {
    std::optional<Case> c = random_case(random, 200);
    if (!c || c->experiment.model.moe_every > 1) continue;
    c->experiment = test::with_predictions(c->experiment, 1 + static_cast<int>(random() % 2));
    INFO(tried);
    if (without_regret(*c)) ++tried;
  }
}

TEST_CASE("dovetail: no regret with sub-modules of a program's own, whose work it cannot bound") {
  Case c{test::testbed_b(2), {}, {}};
  Experiment& e = c.experiment;
  e.extensions = {std::make_shared<HashGate>(), std::make_shared<ReversedOrder>(), std::make_shared<TanhExpert>(),
                  std::make_shared<NodesFirst>()};
  c.base.scope = Scope::Moe;
  c.hold = test::hold_some(c.base, ~0U & ~6U);  // but the order and the streams
  REQUIRE(plan_space(c.task({1, 2, 3})).points() > 9);
  CHECK(without_regret(c));
}

TEST_CASE("dovetail: no regret where a token may go to a node once") {
  test::Random random(11);
  int chosen = 0;
  for (int tried = 0; tried < 4 || (chosen == 0 && tried < 20);) {
    std::optional<Case> c = random_case(random, 400);
    if (!c) continue;
    Experiment& e = c->experiment;
    if (e.parallelism.ep == 1 || e.parallelism.esp > 1 || !e.workload.gate.token_choice()) continue;
    e.cluster.gpus_per_node *= 2;
    if (e.cluster.nodes % 2 != 0) continue;
    e.cluster.nodes /= 2;
    e.parallelism.sequence_parallel.reset();
    e.workload.message_sizes = MessageSizes::Routed;
    c->base = Plan{};
    c->base.scope = Scope::Moe;
    c->base.scores_at = ScoresAt::Experts;
    c->hold = [](Plan&) {};
    if (test::refusal(c->base, e)) continue;
    INFO(tried);
    const std::optional<Plan> found = without_regret(*c);
    if (!found) continue;
    ++tried;
    if (found->all_to_all == AllToAll::NodeDeduplicated) ++chosen;
  }
  CHECK(chosen > 0);
}

namespace {

PlanningTask open_task(const Experiment& e, std::vector<int> degrees = {1, 2, 3, 4}) {
  Plan base;
  base.scope = Scope::Moe;
  return {e, base, {"dovetail", std::move(degrees), false, SearchSpace::Plans}};
}

PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) {
  return find_planner("dovetail").choose(task, evaluate);
}

}  // namespace

TEST_CASE("dovetail: a limit of memory is kept while a plan fits it, and costs time only") {
  Experiment e = test::testbed_b(3);
  const Evaluator evaluate = analytic_evaluator(e);
  const PlanChoice free = choose(open_task(e), evaluate);
  const Bytes most = peak_memory(e, free.plan);
  CHECK(free.report.front.front().memory == most);
  const Bytes least = free.report.front.back().memory;
  REQUIRE(least < most);
  for (double share : {.9, .5, 0.0}) {
    e.cluster.device.memory = least + share * (most - least);
    const PlanChoice tight = choose(open_task(e), evaluate);
    CAPTURE(share);
    CHECK(peak_memory(e, tight.plan) <= e.cluster.device.memory);
    CHECK(evaluate(tight.plan) >= evaluate(free.plan) * (1 - 1e-12));
    if (share < .9) CHECK(tight.plan.restore != Restore::Keep);  // other streams hold a little less
    REQUIRE(tight.report.proof);
    CHECK(tight.report.proof->refused > 0);
    CHECK(tight.report.proof->bound <= evaluate(tight.plan) * (1 + 1e-12));
  }
  e.cluster.device.memory = Bytes(1);
  const PlanChoice none = choose(open_task(e), evaluate);
  CHECK_FALSE(none.report.proof);
  CHECK_THAT(none.report.reason, Catch::Contains("no plan fits"));
  CHECK(peak_memory(e, none.plan) <= least);
}

TEST_CASE("dovetail: of its front no point beats another, and the choice is its first") {
  const Experiment e = test::testbed_b(3);
  const PlanChoice choice = choose(open_task(e), analytic_evaluator(e));
  const std::vector<FrontPoint>& front = choice.report.front;
  REQUIRE(front.size() > 1);
  CHECK(front.front().time == analytic_evaluator(e)(choice.plan));
  for (std::size_t i = 1; i < front.size(); ++i) {
    CHECK(front[i - 1].time <= front[i].time);
    CHECK(front[i - 1].memory > front[i].memory);
    CHECK(front[i].memory == peak_memory(e, front[i].plan));
  }
}

TEST_CASE("dovetail: knobs that the user has fixed hold") {
  const Experiment e = test::testbed_b(2);
  PlanningTask task = open_task(e);
  task.hold = [](Plan& plan) {
    plan.order = Order::Alternate;
    plan.forward_degree = 6;  // no candidate
    plan.comm_streams = CommStreams::One;
  };
  task.hold(task.base);
  const Plan plan = choose(task, analytic_evaluator(e)).plan;
  CHECK(plan.order == Order::Alternate);
  CHECK(plan.forward_degree == 6);
  CHECK(plan.comm_streams == CommStreams::One);
}

TEST_CASE("dovetail: the evaluator has the last word, also about rivals") {
  const Experiment e = test::testbed_b(2);
  PlanningTask task = open_task(e);
  Plan rival = task.base;
  rival.forward_degree = 7;
  rival.order = Order::Alternate;
  task.rivals = {rival};
  const Evaluator likes_rival = [&](const Plan& plan) { return Seconds(plan == rival ? 1 : 2); };
  CHECK(choose(task, likes_rival).plan == rival);
  const Evaluator turned = [&](const Plan& plan) {
    return Seconds(1) / (1 + 1e3 * analytic_evaluator(e)(plan).value());
  };
  const Plan slowest = choose(task, turned).plan;
  CHECK(analytic_evaluator(e)(slowest) > analytic_evaluator(e)(choose(open_task(e), analytic_evaluator(e)).plan));
}

TEST_CASE("dovetail: a search that is cut short says how far from the best it may be") {
  const Experiment e = test::testbed_b(4);
  const SearchResult whole = search_plans(open_task(e), {}, Bytes(1e18), without_end);
  CHECK(whole.proof.optimal());
  const SearchResult cut = search_plans(open_task(e), {}, Bytes(1e18), 400);
  CHECK(cut.proof.predicted < whole.proof.predicted);
  CHECK(cut.proof.bound <= whole.proof.best);
  CHECK(cut.proof.best >= whole.proof.best);
}
