// The unified planner against the oracle of the same stated space, on random experiments with random knobs held.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "planners/analytic_evaluator.hpp"
#include "planners/contest.hpp"
#include "planners/plan_search.hpp"
#include "planners/registry.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

constexpr long without_end = 1'000'000'000;

// Holds some knobs to those of `plan`, by the bits of `which`.
std::function<void(Plan&)> hold_some(const Plan& plan, unsigned which) {
  return [plan, which](Plan& p) {
    const auto held = [which](unsigned knob) { return ((which >> knob) & 1U) != 0; };
    if (held(0)) p.scope = plan.scope, p.split = plan.split, p.peer_group = plan.peer_group;
    if (held(1)) p.order = plan.order;
    if (held(2)) p.comm_streams = plan.comm_streams;
    if (held(3)) {
      p.all_to_all = plan.all_to_all;
      p.all_to_all_implementation = plan.all_to_all_implementation;
      p.all_to_all_levels = plan.all_to_all_levels;
    }
    if (held(4)) p.encoding = plan.encoding;
    if (held(5)) p.expert_sharding = plan.expert_sharding, p.sharding_repeats = plan.sharding_repeats;
    if (held(6)) p.restore = plan.restore, p.buffers = plan.buffers;
    if (held(7)) p.pipeline_schedule = plan.pipeline_schedule, p.micro_batches = plan.micro_batches;
    if (held(8)) p.protocol = plan.protocol;
  };
}

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
  Plan held = test::random_legal_plan(random, c.experiment);
  held.host_sync = false;
  c.base.scope = Scope::Moe;
  c.base.encoding = c.experiment.workload.gate.kind == GateKind::SoftMoe ? Encoding::Dense : Encoding::Sparse;
  c.hold = hold_some(held, static_cast<unsigned>(random()) | static_cast<unsigned>(random()));
  c.hold(c.base);
  if (c.base.scope == Scope::Layer) return std::nullopt;
  const PlanningTask task = c.task({1, 2, 3});
  try {
    if (const double points = plan_space(task).points(); points > most || points < 2) return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;  // no degree goes with what is held
  }
  return c;
}

std::string describe(const Case& c, const Plan& plan) {
  return test::describe(c.experiment, plan);
}

long cases() {
  const char* more = std::getenv("DOVETAIL_CASES");
  return more == nullptr ? 300 : std::atol(more);
}

}  // namespace

TEST_CASE("dovetail: no regret against the oracle, and the bound is one") {
  test::Random random(7);
  double best_of_all = 0;
  long tried = 0, proven = 0;
  while (tried < cases()) {
    const std::optional<Case> c = random_case(random, 400);
    if (!c) continue;
    const PlanningTask task = c->task({1, 2, 3});
    const Evaluator evaluate = analytic_evaluator(c->experiment);
    std::optional<PlanChoice> oracle;
    try {
      oracle = find_planner("exhaustive").choose(task, evaluate);
    } catch (const InternalError&) {
      continue;  // the space holds no plan that can be built
    }
    ++tried;
    const double best = evaluate(oracle->plan).value();
    const SearchResult found = search_plans(task, {}, Bytes(1e18), without_end);
    INFO("case " << tried << ": oracle " << describe(*c, oracle->plan));
    REQUIRE_FALSE(found.plans.empty());
    INFO("ours " << describe(*c, found.plans.front().plan));
    CHECK(found.plans.front().time.value() == Approx(best).epsilon(1e-9));
    CHECK(found.proof.bound.value() <= best * (1 + 1e-9));
    if (found.proof.optimal()) ++proven;
    best_of_all += best;
  }
  CHECK(best_of_all > 0);
  CHECK(proven == tried);  // nothing cut the searches short
}
