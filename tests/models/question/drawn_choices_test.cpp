// SPDX-License-Identifier: Apache-2.0
#include "models/question/drawn_choices.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "models/question/expert_loads.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

Experiment many_tokens(RoutingKind kind) {
  Experiment e = test::round_numbers();
  e.workload.batch = 1;
  e.workload.sequence = 8192;
  e.model.experts = 64;
  e.workload.top_k = 8;
  e.workload.routing.kind = kind;
  return e;
}

double groups_reached(const std::vector<std::int32_t>& choices, int top_k, int of_group) {
  double reached = 0;
  for (auto token = choices.begin(); token != choices.end(); token += top_k) {
    std::set<int> groups;
    std::for_each(token, token + top_k, [&](std::int32_t expert) { groups.insert(expert / of_group); });
    reached += static_cast<double>(groups.size());
  }
  return reached * top_k / static_cast<double>(choices.size());
}

}  // namespace

TEST_CASE("A token that chooses among all experts alike reaches so many groups of them") {
  // Published for DeepSeek-V3's 8 of 256 over 8 nodes, and by the same formula of fewer experts.
  CHECK(groups_of_a_token(8, 256, 8) == Approx(5.2947).epsilon(1e-5));
  CHECK(groups_of_a_token(8, 128, 8) == Approx(5.3394).epsilon(1e-5));
  CHECK(groups_of_a_token(8, 64, 8) == Approx(5.4326).epsilon(1e-5));
  CHECK(groups_of_a_token(2, 4, 2) == Approx(2 * (1 - 1. / 6)));  // one of six pairs leaves a group out
  CHECK(groups_of_a_token(4, 4, 3) == Approx(3));                 // a group for each expert
  CHECK(groups_of_a_token(2, 8, 6) == Approx(2));                 // more than a group has
}

TEST_CASE("Drawn choices have the loads of their model, and reach as many groups as chance has it") {
  const Experiment e = many_tokens(GENERATE(RoutingKind::Router, RoutingKind::Uniform, RoutingKind::Zipf));
  const std::vector<std::int32_t> choices = *drawn_choices(e, 0, 0);
  std::vector<std::int64_t> loads(64);
  for (std::int32_t expert : choices) ++loads[static_cast<std::size_t>(expert)];
  CHECK(loads == expert_loads(e, 0, 0));
  const double reached = groups_reached(choices, 8, 8);
  if (e.workload.routing.kind == RoutingKind::Zipf) {
    CHECK(reached < 5);  // the first experts are chosen together
  } else {
    CHECK(reached == Approx(groups_of_a_token(8, 64, 8)).epsilon(.005));  // .002 is a standard deviation of 8192 tokens
  }
}

TEST_CASE("A router that chooses among groups of experts first keeps each token's experts in few of them") {
  Experiment e = many_tokens(RoutingKind::Router);
  e.model.router = {.groups = 8, .top_groups = 4};
  const std::vector<std::int32_t> choices = *drawn_choices(e, 0, 0);
  std::vector<std::int64_t> loads(64);
  for (std::int32_t expert : choices) ++loads[static_cast<std::size_t>(expert)];
  CHECK(loads == expert_loads(e, 0, 0));
  for (auto token = choices.begin(); token != choices.end(); token += 8) {
    std::set<int> groups, experts(token, token + 8);
    std::for_each(token, token + 8, [&](std::int32_t expert) { groups.insert(expert / 8); });
    REQUIRE(groups.size() <= 4);
    REQUIRE(experts.size() == 8);
  }
  // Most sets of eight experts in at most four groups have some of each of the four.
  CHECK(groups_reached(choices, 8, 8) > 3.6);
}

TEST_CASE("Layers and ranks choose alike, unless a trace has loads of each") {
  Experiment e = many_tokens(RoutingKind::Uniform);
  const std::vector<std::int32_t> choices = *drawn_choices(e, 0, 0);
  CHECK(*drawn_choices(e, 1, 1) == choices);
  e.workload.routing.seed = 2;
  CHECK_FALSE(*drawn_choices(e, 0, 0) == choices);
  e.workload.routing.kind = RoutingKind::Trace;
  e.workload.routing.layers = {{std::vector<double>(64, 1)}};
  const std::vector<std::int32_t> recorded = *drawn_choices(e, 0, 0);
  CHECK_FALSE(*drawn_choices(e, 1, 0) == recorded);
  CHECK_FALSE(*drawn_choices(e, 0, 1) == recorded);
  CHECK(*drawn_choices(e, 0, 0) == recorded);
}

TEST_CASE("First choices take their slots before second ones") {
  // Tokens choose experts 1 and 0, 1 and 2, 0 and 1. Expert 1 has room for two of three.
  CHECK(slots_of({1, 0, 1, 2, 0, 1}, 2, 3, 2) == std::vector<std::int32_t>{0, 1, 1, 0, 0, -1});
}
