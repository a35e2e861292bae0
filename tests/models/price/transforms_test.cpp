// SPDX-License-Identifier: Apache-2.0
#include "models/price/transforms.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

double makespan(const PricedSchedule& priced) {
  std::vector<double> scratch;
  return analytic_makespan(priced, scratch).value();
}

}  // namespace

TEST_CASE("Ops with new durations share nothing") {
  HandMade made(2, 1);
  made.add(0, {}, 0, {use(0, 1)});
  made.add(1, {}, 0, {use(0, 1)});
  const PricedSchedule shared = made.priced();
  CHECK(makespan(shared) == 2);  // both need the one resource for 1 s
  CHECK(makespan(with_durations(shared, shared.duration)) == 1);
  CHECK(makespan(with_durations(shared, {Seconds(3), Seconds(.5)})) == 3);
}

TEST_CASE("Ops without cost take no time, and the others what they took") {
  const PricedSchedule all = price_plan(round_numbers(1), Plan{});
  const PricedSchedule experts = without_cost_of(all, [](OpKind kind) { return kind != OpKind::Expert; });
  Seconds sum;
  for (const OpId op : all.duration.ids())
    if (all.schedule->ops[op].kind == OpKind::Expert) sum += all.duration[op];
  REQUIRE(sum > Seconds(0));
  CHECK(makespan(experts) == Approx(sum.value()));  // they run one after the other
  CHECK(makespan(without_cost_of(all, [](OpKind) { return true; })) == 0);
  CHECK(makespan(without_cost_of(all, [](OpKind) { return false; })) == makespan(all));
}
