// SPDX-License-Identifier: Apache-2.0
#include "models/price/step_part.hpp"

#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

Seconds step_time(const PricedSchedule& priced) {
  std::vector<double> scratch;
  return analytic_makespan(priced, scratch);
}

}  // namespace

TEST_CASE("step parts: every kind of op but the host's wait belongs to one") {
  for (const auto& [name, kind] : op_kind_names) {
    INFO(name);
    CHECK(part_of(kind).has_value() == (kind != OpKind::HostSync));
  }
  CHECK(part_of(OpKind::Dispatch) == StepPart::RowExchanges);
  CHECK(part_of(OpKind::MpAllReduce) == StepPart::ModelParallel);
  CHECK(part_of(OpKind::GradientNormAllReduce) == StepPart::Gradients);
  CHECK(part_of(OpKind::Update) == StepPart::Update);
}

TEST_CASE("step parts: a step in which nothing overlaps is shorter by all that a part takes") {
  const PricedSchedule priced = price_plan(test::round_numbers(2), Plan{});
  Seconds all;
  for (const auto& [name, part] : step_part_names) {
    Seconds of_part;
    for (const OpId op : priced.schedule->ops.ids())
      if (part_of(priced.schedule->ops[op].kind) == part) of_part += priced.duration[op];
    PricedSchedule free = priced;
    INFO(name);
    CHECK(make_free(part, free) == (of_part > Seconds(0)));
    CHECK(step_time(free).value() == Approx((step_time(priced) - of_part).value()));
    all += of_part;
  }
  CHECK(step_time(priced).value() == Approx(all.value()));
}

TEST_CASE("step parts: no step is longer without one, where operations do not slow each other") {
  int shorter = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    test::Random random(seed);
    Experiment e = test::random_experiment(random);
    e.overlap = Overlap::Ideal;
    const Plan plan = test::random_legal_plan(random, e);
    const PricedSchedule priced = price_plan(e, plan);
    if (priced.contended) continue;
    for (const auto& [name, part] : step_part_names) {
      PricedSchedule free = priced;
      if (!make_free(part, free)) continue;
      INFO("seed " << seed << ", " << name << ": " << test::describe(e, plan));
      CHECK(step_time(free) <= step_time(priced) * (1 + 1e-12));
      if (step_time(free) < step_time(priced)) ++shorter;
    }
  }
  CHECK(shorter > 100);
}
