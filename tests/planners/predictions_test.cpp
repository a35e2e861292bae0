// SPDX-License-Identifier: Apache-2.0
#include "planners/search/predictions.hpp"

#include <catch2/catch.hpp>

#include "planners/task/analytic_evaluator.hpp"
#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

Plan of_degree(int degree, Restore restore = Restore::Keep, Buffers buffers = Buffers::PerChunk) {
  Plan plan = test::moe_plan();
  plan.forward_degree = plan.backward_degree = degree;
  plan.restore = restore;
  plan.buffers = buffers;
  if (buffers != Buffers::PerChunk) plan.order = Order::Alternate;  // a ring of buffers cannot send all chunks first
  return plan;
}

const Bytes plenty(1e18);

}  // namespace

TEST_CASE("predictions: each plan is looked at once, as the evaluator sees it") {
  const Experiment e = test::testbed_b(3);
  const PlanningTask task{e, test::moe_plan(), {}};
  Predictions predictions(task, plenty);
  const Seconds time = predictions.predict(of_degree(2));
  CHECK(time == analytic_evaluator(e)(of_degree(2)));
  CHECK(predictions.predict(of_degree(2)) == time);
  CHECK(predictions.all().size() == 1);
  CHECK(predictions.layers() == 3);  // of one plan and one micro-batch
  CHECK(predictions.best() == time);
  CHECK(*predictions.fastest_fitting() == of_degree(2));
}

TEST_CASE("predictions: what the task does not allow has no time") {
  const Experiment e = test::testbed_b();
  PlanningTask task{e, test::moe_plan(), {}};
  task.hold = [](Plan& plan) { plan.order = Order::Alternate; };
  Predictions predictions(task, plenty);
  CHECK(predictions.predict(of_degree(2)) == never);
  CHECK(predictions.all().empty());
  CHECK(predictions.fastest_fitting() == nullptr);
}

TEST_CASE("predictions: memory that is too small refuses plans and leaves the one that lacks least") {
  const Experiment e = test::testbed_b(2);
  const PlanningTask task{e, test::moe_plan(), {}};
  const Plan large = of_degree(4), small = of_degree(4, Restore::S4, Buffers::Double);
  const Bytes most = peak_memory(e, large), least = peak_memory(e, small);
  REQUIRE(least < most);
  Predictions tight(task, least + .5 * (most - least));
  tight.predict(large);
  CHECK(tight.refused() == 1);
  CHECK(tight.best() == never);
  tight.predict(small);
  CHECK(*tight.fastest_fitting() == small);
  CHECK(tight.fastest_first().size() == 1);
  CHECK(tight.front().size() == 2);  // the larger plan is faster

  Predictions none(task, Bytes(1));
  none.predict(large);
  none.predict(small);
  CHECK(none.refused() == 2);
  CHECK(none.fastest_fitting() == nullptr);
  REQUIRE(none.fastest_first().size() == 1);
  CHECK(none.fastest_first().front().plan == small);
  CHECK(none.too_large(large));  // the weights alone are larger than a byte
}

TEST_CASE("predictions: the memory of a slower plan is looked at only where that is asked for") {
  const Experiment e = test::testbed_b(2);
  const PlanningTask task{e, test::moe_plan(), {}};
  const Evaluator evaluate = analytic_evaluator(e);
  Plan fast = of_degree(1), slow = of_degree(2);
  if (evaluate(slow) < evaluate(fast)) std::swap(fast, slow);
  REQUIRE(evaluate(fast) < evaluate(slow));
  Predictions lazy(task, plenty), eager(task, plenty);
  for (Predictions* p : {&lazy, &eager}) p->predict(fast);
  lazy.predict(slow);
  eager.predict(slow, true);
  CHECK(lazy.all().back().peak == Bytes(0));
  CHECK(eager.all().back().peak == peak_memory(e, slow));
}
