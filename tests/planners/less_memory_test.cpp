// SPDX-License-Identifier: Apache-2.0
#include "planners/search/less_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

struct Asked {
  Experiment experiment = test::testbed_b(2);
  PlanningTask task{experiment, test::moe_plan(), {"dovetail", {1, 2, 4, 6, 16}, false, SearchSpace::Plans}};
  PlanSpace space = plan_space(task);
};

}  // namespace

TEST_CASE("less memory: the nearest degree is the first of equally near ones") {
  CHECK(nearest_degree({1, 2, 4, 6, 16}, 8) == 6);
  CHECK(nearest_degree({2, 4}, 3) == 2);
}

TEST_CASE("less memory: a plan comes with every way to restore, and single buffers in more chunks") {
  Asked a;
  Plan from = a.task.base;
  from.forward_degree = from.backward_degree = 2;
  const std::vector<Plan> plans = plans_of_less_memory(from, a.space, false);
  CHECK(plans.size() == a.space.keeping.size() + a.space.restoring.size());
  for (const Plan& plan : plans) CHECK(plan.forward_degree == (plan.buffers == Buffers::Single ? 6 : 2));
  for (const Plan& plan : plans) CHECK_FALSE((plan.buffers != Buffers::PerChunk && plan.order == Order::DispatchFirst));
  const auto single = std::ranges::count(plans, Buffers::Single, &Plan::buffers);
  CHECK(single > 0);
  const std::vector<Plan> least = plans_of_less_memory(from, a.space, true, true);
  CHECK(std::ssize(least) == single);
  for (const Plan& plan : least) CHECK(plan.forward_degree == 16);  // the most chunks
}

TEST_CASE("less memory: there is no point in looking where the weights do not fit") {
  Asked a;
  const std::vector<Plan> plans{a.task.base};
  CHECK(weights_exceed(plans, a.experiment, Bytes(1)));
  CHECK_FALSE(weights_exceed(plans, a.experiment, Bytes(1e18)));
  CHECK_FALSE(weights_exceed({}, a.experiment, Bytes(1)));
}
