#include "planners/step_prediction.hpp"

#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/analytic_evaluator.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

struct Whole {
  Seconds time;
  Bytes peak;
};
Whole whole_step(const Experiment& e, const Plan& plan) {
  const PricedSchedule priced = price_plan(e, plan);
  const Timeline timeline = AnalyticBackend().run(priced);
  Whole whole;
  for (const Interval& op : timeline.ops) whole.time = std::max(whole.time, op.finish);
  whole.peak = memory_use(*priced.schedule, timeline, Arenas::LeftOut).peak;
  return whole;
}

// Many micro-batches of the experiment's own samples.
std::pair<Experiment, Plan> of_many(test::Random& random, int micro_batches) {
  Experiment e = test::random_experiment(random);
  test::weigh_bytes(random, e);
  e.workload.router_loads.clear();
  e.workload.batch *= micro_batches;
  resolve_capacity(e);
  for (;;) {
    Plan plan = test::random_plan(random, e);
    plan.micro_batches = micro_batches;
    if (!test::refusal(plan, e)) return {e, plan};
  }
}

}  // namespace

TEST_CASE("A step of many micro-batches follows from two of few") {
  int shortened = 0, late = 0;  // late: a slower period began after the short steps
  for (unsigned seed = 1; seed <= 400; ++seed) {
    test::Random random(seed);
    const auto [e, plan] = of_many(random, 12 + static_cast<int>(seed % 40));
    const StepPrediction step(e, plan);
    if (step.built() == plan.micro_batches) continue;
    ++shortened;
    const Whole whole = whole_step(e, plan);
    INFO("seed " << seed << ": " << test::describe(e, plan));
    const double time = step.time() / whole.time, peak = step.peak() / whole.peak;
    CHECK(time == Approx(1).epsilon(.01));
    CHECK(peak == Approx(1).epsilon(.02));
    if (std::abs(time - 1) > 1e-5 || std::abs(peak - 1) > 1e-9) ++late;
  }
  CHECK(shortened > 100);
  CHECK(late * 50 < shortened);
}
