// SPDX-License-Identifier: Apache-2.0
#include "planners/search/nearest_plan.hpp"

#include <catch2/catch.hpp>

#include "planners/steps/refusal.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

Experiment routed() {
  Experiment e = test::testbed_b();
  e.workload.message_sizes = MessageSizes::Routed;
  return e;
}

// `changed` with what makes it legal; it has what it was changed in.
std::optional<Plan> nearest(const Plan& changed, const Experiment& e) {
  NearestPlans plans;
  return plans.find(changed, e, keeps_changes(Plan(), changed));
}

}  // namespace

TEST_CASE("A plan that can be built is the nearest to itself") {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  CHECK(nearest(plan, test::testbed_b()) == plan);
}

TEST_CASE("Chunks bring along a scope in which they overlap") {
  Plan wanted;
  wanted.forward_degree = 2;
  REQUIRE(refusal(wanted, test::testbed_b()));
  Plan expected = wanted;
  expected.scope = Scope::Moe;
  CHECK(nearest(wanted, test::testbed_b()) == expected);
}

TEST_CASE("Tokens that go to each node once bring along experts that apply the scores") {
  Plan wanted;
  wanted.all_to_all = AllToAll::NodeDeduplicated;
  Plan expected = wanted;
  expected.scores_at = ScoresAt::Experts;
  CHECK(nearest(wanted, routed()) == expected);
}

TEST_CASE("Rings of buffers bring along rows that are restored") {
  Plan wanted;
  wanted.buffers = Buffers::Double;
  const std::optional<Plan> found = nearest(wanted, test::testbed_b());
  REQUIRE(found);
  CHECK(found->buffers == Buffers::Double);
  CHECK(found->restore != Restore::Keep);
}

TEST_CASE("Nothing pads messages of a question that has routed ones") {
  Plan wanted;
  wanted.scope = Scope::Block;
  CHECK(!nearest(wanted, routed()));
}

TEST_CASE("What made one plan legal is remembered for others, and holds what must stay") {
  const Experiment e = routed();
  NearestPlans plans;
  Plan wanted;
  wanted.all_to_all = AllToAll::NodeDeduplicated;
  REQUIRE(plans.find(wanted, e, keeps_changes(Plan(), wanted)));
  wanted.zero = 1;
  const std::optional<Plan> again = plans.find(wanted, e, keeps_changes(Plan(), wanted));
  REQUIRE(again);
  CHECK(again->zero == 1);
  const auto at_decode = [](const Plan& plan) { return plan.scores_at == ScoresAt::Decode; };
  const std::optional<Plan> other = plans.find(wanted, e, at_decode);
  CHECK((!other || at_decode(*other)));
}
