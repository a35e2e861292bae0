// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/routing.hpp"

#include <catch2/catch.hpp>

#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

LayerShape shape(std::int64_t tokens, std::int64_t experts, std::int64_t top_k, std::int64_t capacity) {
  LayerShape s;
  s.tokens = tokens;
  s.experts = experts;
  s.top_k = top_k;
  s.capacity = capacity;
  return s;
}

std::vector<std::int64_t> loads_of(const Routing& routing, std::size_t experts) {
  std::vector<std::int64_t> loads(experts);
  for (const Choice& c : routing) ++loads[static_cast<std::size_t>(c.expert)];
  return loads;
}

}  // namespace

TEST_CASE("All first choices take slots before all second choices, in token order") {
  // Three tokens, three experts: all prefer expert 0; then experts 1, 2 and 1.
  const Routing r = route(shape(3, 3, 2, 2), {.6, .3, .1, .5, .2, .3, .7, .2, .1});
  CHECK(r == Routing{{0, 0, 0}, {0, 1, 0}, {1, 0, 1}, {1, 2, 0}, {2, 0, -1}, {2, 1, 1}});  // expert 0 is full
  CHECK(drop_count(r) == 1);
  CHECK(largest_load(r, 3) == 3);
}

TEST_CASE("Second choices find what first choices left") {
  const Routing r = route(shape(2, 2, 2, 1), {.6, .4, .4, .6});  // 0 then 1; 1 then 0
  CHECK(r == Routing{{0, 0, 0}, {0, 1, -1}, {1, 1, 0}, {1, 0, -1}});
}

TEST_CASE("Batch prioritised, the best tokens keep their slots") {
  // All prefer expert 0, which takes two: token 2 (.7) and token 0 (.6), not token 1 (.5).
  LayerShape s = shape(3, 3, 2, 2);
  s.gate.batch_prioritised = true;
  const Routing r = route(s, {.6, .3, .1, .5, .2, .3, .7, .2, .1});
  CHECK(r == Routing{{0, 0, 1}, {0, 1, 1}, {1, 0, -1}, {1, 2, 0}, {2, 0, 0}, {2, 1, 0}});
}

TEST_CASE("Ties go to the lower expert") {
  const Routing r = route(shape(1, 4, 3, 1), {.25, .25, .25, .25});
  CHECK(r == Routing{{0, 0, 0}, {0, 1, 0}, {0, 2, 0}});
}

TEST_CASE("Experts choose their best tokens, and all of them fill up") {
  // Columns: expert 0 likes tokens 2, 0, 1; expert 1 likes tokens 1 and 2 alike, then 0.
  LayerShape s = shape(3, 2, 1, 2);
  s.gate.kind = GateKind::ExpertChoice;
  const Routing r = route(s, {.6, .4, .2, .8, .7, .8});
  CHECK(r == Routing{{2, 0, 0}, {0, 0, 1}, {1, 1, 0}, {2, 1, 1}});
  CHECK(drop_count(r) == 0);
}

TEST_CASE("A routing model's loads are routed exactly, no token twice to one expert") {
  SmallExperiment sizes;
  sizes.sequence = 32;
  sizes.experts = 5;
  sizes.top_k = GENERATE(1, 2, 3, 5);
  Experiment e = small_experiment(sizes);
  e.workload.routing.kind = GENERATE(RoutingKind::Uniform, RoutingKind::Zipf, RoutingKind::Hot);
  const Routing r = modelled_choices(e, 0, 0);
  CHECK(loads_of(r, 5) == expert_loads(e, 0, 0));
  for (std::size_t i = 0; i < r.size(); ++i) {
    CHECK(r[i].token == static_cast<int>(i) / sizes.top_k);
    CHECK(r[i].slot == Choice::no_slot_yet);
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE((r[j].token == r[i].token && r[j].expert == r[i].expert));
  }
  CHECK(modelled_choices(e, 0, 0) == r);
  CHECK(modelled_choices(e, 1, 2) == r);  // where all layers and ranks have the same loads
  e.workload.routing.seed = 2;
  if (sizes.top_k < 5) CHECK_FALSE(modelled_choices(e, 0, 0) == r);
}

TEST_CASE("The router decides where there is no model, and for experts that choose") {
  Experiment e = small_experiment({});
  CHECK(modelled_choices(e, 0, 0).empty());
  e.workload.routing.kind = RoutingKind::Uniform;
  e.workload.gate.kind = GateKind::ExpertChoice;
  CHECK(modelled_choices(e, 0, 0).empty());
}
