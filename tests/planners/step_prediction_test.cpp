// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/step_prediction.hpp"

#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/price/step_part.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "tests/planners/deep_pipelines.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

struct Whole {
  Seconds time;
  Bytes peak;
  Metrics metrics;
};
Whole whole_step(const Experiment& e, const Plan& plan) {
  const PricedSchedule priced = price_plan(e, plan);
  const Timeline timeline = AnalyticBackend().run(priced);
  Whole whole{{}, {}, metrics(*priced.schedule, timeline)};
  if (!priced.launch.empty()) whole.metrics.launch_bound = launch_bound(*priced.schedule, timeline);
  whole.time = whole.metrics.makespan;
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

bool offloads(const Plan& plan) {
  return offloads_input(plan.restore) || offloads_hidden(plan.restore);
}

// A real model in a deep pipeline, and any plan for it that goes through it in so many micro-batches. It offloads rows
// where that is wanted.
std::pair<Experiment, Plan> in_deep_pipeline(test::Random& random, bool offloading) {
  const int pp = 4 << random() % 3, laps = random() % 2 == 0 ? 1 : 16 / pp;
  Experiment e = test::olmoe_in_stages(pp, pp * static_cast<int>(3 + random() % 3));
  e.workload.layers = static_cast<int>(16 - (laps == 1 && pp < 16 ? random() % 2 : 0));
  resolve_capacity(e);
  for (;;) {
    Plan plan = test::random_plan(random, e);
    plan.gradient_chunk_bytes = Plan{}.gradient_chunk_bytes;  // random ones are of small tensors
    plan.micro_batches = e.workload.batch;
    plan.virtual_stages = laps;
    plan.pipeline_schedule = laps > 1 ? pipeline_schedule("interleaved") : pipeline_schedule("1f1b");
    if ((offloads(plan) || !offloading) && !refusal(plan, e)) return {e, plan};
  }
}

}  // namespace

TEST_CASE("A deep pipeline of a real model is predicted in all that is reported of it") {
  const int seeds = test::cases(100);
  int shortened = 0, repeating = 0, offloading = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const auto [e, plan] = in_deep_pipeline(random, seed % 2 == 1);
    const StepPrediction step(e, plan);
    if (step.built() == plan.micro_batches) continue;
    ++shortened;
    const Whole whole = whole_step(e, plan);
    INFO("seed " << seed << ": built " << step.built() << ", " << test::describe(e, plan));
    repeating += step.repeats();
    offloading += offloads(plan);
    CHECK(step.time() / whole.time == Approx(1).epsilon(step.repeats() ? 1e-7 : .002));
    CHECK(step.peak() / whole.peak == Approx(1).epsilon(step.repeats() ? 1e-7 : .003));
    const Metrics metrics = step.metrics();
    for (const auto part : {&Metrics::makespan, &Metrics::forward, &Metrics::exposed_communication, &Metrics::waiting,
                            &Metrics::computation, &Metrics::hidden})
      CHECK((metrics.*part - whole.metrics.*part) / whole.time == Approx(0).margin(.004));
    // If two chains of ops take nearly as long, the longer one may go through the host in one step alone.
    CHECK((metrics.launch_bound - whole.metrics.launch_bound) / whole.time == Approx(0).margin(.2));
  }
  CHECK(3 * shortened > seeds);
  CHECK(5 * repeating > seeds);
  CHECK(offloading > seeds / 20);
}

TEST_CASE("A step that repeats itself is told to rounding, also if a part of it took no time") {
  const int seeds = test::cases(60);
  int repeating = 0, free = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const auto [e, plan] = in_deep_pipeline(random, false);
    const std::optional<StepPrediction> step = StepPrediction::of_repeating(e, plan);
    if (!step) continue;
    ++repeating;
    INFO("seed " << seed << ": built " << step->built() << ", " << test::describe(e, plan));
    CHECK(step->built() < plan.micro_batches);
    const Whole whole = whole_step(e, plan);
    CHECK(step->time() / whole.time == Approx(1).epsilon(1e-7));
    CHECK(step->peak() / whole.peak == Approx(1).epsilon(1e-7));
    CHECK(step->lower_bound() / lower_bound(price_plan(e, plan)) == Approx(1).epsilon(1e-7));
    const Metrics metrics = step->metrics();
    for (const auto part : {&Metrics::makespan, &Metrics::exposed_communication, &Metrics::waiting,
                            &Metrics::computation, &Metrics::hidden})
      CHECK((metrics.*part - whole.metrics.*part) / whole.time == Approx(0).margin(1e-7));
    for (const StepPart part : {StepPart::Experts, StepPart::StageMessages, StepPart::Launches}) {
      const auto make = [part](PricedSchedule& priced) { make_free(part, priced); };
      const std::optional<Seconds> time = step->time_if(make);
      if (!time) continue;
      ++free;
      PricedSchedule priced = price_plan(e, plan);
      make(priced);
      std::vector<double> scratch;
      CHECK(*time / analytic_makespan(priced, scratch) == Approx(1).epsilon(1e-7));
    }
  }
  CHECK(4 * repeating > seeds);
  CHECK(free > repeating);
}

TEST_CASE("A step of many micro-batches follows from one or two of few") {
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
    CHECK(peak == Approx(1).epsilon(.1));
    if (std::abs(time - 1) > 1e-5 || std::abs(peak - 1) > 1e-9) ++late;
  }
  CHECK(shortened > 100);
  CHECK(late * 30 < shortened);
}

TEST_CASE("A steady period is what further micro-batches add, and there is none before the pipeline is full") {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 2, .edp = 1};
  e.workload.batch = 10;
  resolve_capacity(e);
  Plan plan = test::moe_plan();
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  AnalyticBackend backend;
  const auto period_of = [&](int micro_batches, int lag) {
    plan.micro_batches = micro_batches;
    const PricedSchedule priced = price_plan(with_fewer(e, 10, micro_batches), plan);
    return steady_period(priced, backend.run(priced), lag);
  };
  const auto time_of = [&](int micro_batches) {
    plan.micro_batches = micro_batches;
    return whole_step(with_fewer(e, 10, micro_batches), plan).time;
  };
  // Rows reach the second stage now earlier and now later, so that the first one begins after 23 and after 21 ms.
  const std::optional<SteadyPeriod> period = period_of(8, 2);
  REQUIRE(period);
  CHECK(period->time.value() == Approx((time_of(10) - time_of(8)).value()));
  CHECK(period->time.value() == Approx(.044).margin(.0002));
  CHECK(period->end() < time_of(8));
  CHECK(!period_of(8, 1));
  CHECK(!period_of(3, 1));
}
