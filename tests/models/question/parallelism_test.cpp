// SPDX-License-Identifier: Apache-2.0
#include "models/question/parallelism.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/question/stage_layout.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("defaults: mp = esp = GPUs per node, ep = gcd(experts, nodes), edp = nodes / ep") {
  Experiment e = test::testbed_b();
  e.cluster.nodes = 6;
  e.cluster.gpus_per_node = 8;
  const Parallelism p = default_parallelism(e.cluster, e.model);  // Mixtral on testbed A
  CHECK(p.mp == 8);
  CHECK(p.esp == 8);
  CHECK(p.dp == 6);
  CHECK(p.ep == 2);
  CHECK(p.edp == 3);
  CHECK_NOTHROW(validate(p, e.cluster, e.model));
}

TEST_CASE("large models are trained with the least sharing that the memory for their state asks for") {
  // 18 bytes a parameter; H100s of 80 GiB hold 57.3 GB of state at most.
  Cluster c;
  c.nodes = 2;
  c.gpus_per_node = 8;
  c.device.memory = Bytes(80 * 0x1p30);
  Model m = test::testbed_b().model;  // Mixtral 8x7B: 45.1e9 parameters of experts and 1.6e9 others
  Parallelism p = trained_parallelism(c, m);
  // 8 experts over 8 ranks are 101 GB on each, and 51 GB in two shards: with these, mp 8 leaves 3.6 GB of the others,
  // and mp 4 7.2 GB, which is too much.
  CHECK(p.esp == 2);
  CHECK(p.mp == 8);
  CHECK(p.ep == 8);
  CHECK(p.edp == 1);
  CHECK(p.dp == 2);
  CHECK_NOTHROW(validate(p, c, m));
  // Two stages have half of that each: 51 GB of experts on 8 ranks, and with mp 2 57.9 GB, with mp 4 54.3 GB.
  p = trained_parallelism(c, m, {.pp = 2});
  CHECK(p.esp == 1);
  CHECK(p.mp == 4);
  CHECK(p.dp == 2);
  CHECK(p.ep == 8);
  CHECK(p.edp == 1);
  CHECK_NOTHROW(validate(p, c, m));
  c.device.memory = Bytes(300e9);  // 200 GB of state
  p = trained_parallelism(c, m);
  CHECK(p.esp == 1);
  CHECK(p.mp == 1);
  CHECK(p.dp == 16);
  CHECK(p.edp == 2);
  c.device.memory = Bytes(1e9);  // never: the least that there is
  p = trained_parallelism(c, m);
  CHECK(p.esp * p.ep == 16);
  CHECK(p.mp == 8);
}

TEST_CASE("more model-parallel ranks than key/value heads repeat these and divide the queries") {
  Experiment e = test::testbed_b();
  e.model.attention = {.heads = 32, .kv_heads = 4, .head_size = 16};
  e.cluster.nodes = 1;
  e.cluster.gpus_per_node = 8;
  e.parallelism = {.dp = 1, .mp = 8, .ep = 8};
  CHECK_NOTHROW(validate(e.parallelism, e.cluster, e.model));
  const LayerVolumes v = layer_volumes(e);
  CHECK(v.query_heads == 4);       // 32 over 8 ranks
  CHECK(v.key_value_width == 16);  // one head, which two ranks have
  CHECK(v.projected_width == 6 * 16);
  e.model.attention.kv_heads = 6;
  e.model.attention.heads = 48;
  CHECK_THROWS_WITH(validate(e.parallelism, e.cluster, e.model),
                    Contains("/parallelism: mp 8 cannot repeat the model's 6 key/value heads equally often"));
}

TEST_CASE("groups of a kind partition the ranks, and every member sees the same group") {
  const Parallelism p{.dp = 6, .mp = 4, .ep = 3, .esp = 2, .pp = GENERATE(1, 3), .edp = 4};
  const int ranks = 24 * p.pp;
  for (const auto& [name, kind] : group_kind_names) {
    std::set<int> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> members = group_members(p, kind, rank);
      REQUIRE(static_cast<int>(members.size()) == group_size(p, kind));
      REQUIRE(std::count(members.begin(), members.end(), rank) == 1);
      for (int m : members) REQUIRE(group_members(p, kind, m) == members);
      seen.insert(members.begin(), members.end());
    }
    CHECK(static_cast<int>(seen.size()) == ranks);
  }
}

TEST_CASE("whether a group crosses nodes follows from where its ranks are") {
  Cluster c;
  c.nodes = 2;
  c.gpus_per_node = 4;
  // esp 2 innermost: ep group {0, 2, 4, 6} is on both nodes; with ep 2, {0, 2} stays inside one.
  CHECK(group_shape({.dp = 2, .mp = 4, .ep = 4, .esp = 2}, GroupKind::Ep, c).nodes == 2);
  const Parallelism inside{.dp = 2, .mp = 4, .ep = 2, .esp = 2, .edp = 2};
  CHECK_FALSE(group_shape(inside, GroupKind::Ep, c).crosses_nodes());
  CHECK(group_shape(inside, GroupKind::Edp, c).crosses_nodes());
  CHECK(group_shape({.dp = 1, .mp = 8, .ep = 8}, GroupKind::Mp, c).nodes == 2);
}

TEST_CASE("the nodes of a group in closed form are those of its members") {
  for (int gpus : {1, 2, 3, 4, 6, 8, 72})
    for (int inner : {1, 2, 3, 4, 8, 12})
      for (int size : {1, 2, 3, 4, 8, 9, 25}) {
        Cluster c;
        c.gpus_per_node = gpus;
        const Parallelism p{.dp = size, .mp = inner, .ep = size, .esp = inner};
        for (GroupKind kind : {GroupKind::Mp, GroupKind::Dp, GroupKind::Ep}) {
          std::set<int> nodes;
          for (int member : group_members(p, kind, 0)) nodes.insert(member / gpus);
          REQUIRE(group_shape(p, kind, c).nodes == static_cast<int>(nodes.size()));
          REQUIRE(group_shape(p, kind, c).ranks == group_size(p, kind));
        }
      }
}

TEST_CASE("pipeline stages: consecutive ranks, equal runs of layers, the first ones longer") {
  const Parallelism p{.dp = 2, .mp = 2, .ep = 4, .esp = 1, .pp = 3, .edp = 1};
  CHECK(group_members(p, GroupKind::Pp, 5) == std::vector{1, 5, 9});
  CHECK(group_members(p, GroupKind::Dp, 5) == std::vector{5, 7});
  CHECK(group_members(p, GroupKind::Ep, 9) == std::vector{8, 9, 10, 11});
  std::vector<std::pair<int, int>> runs;
  for (int stage = 0; stage < 3; ++stage) {
    const LayerRun run = StageLayout(8, {.pp = 3}).run(stage);
    runs.emplace_back(run.first, run.last);
  }
  CHECK(runs == std::vector<std::pair<int, int>>{{0, 3}, {3, 6}, {6, 8}});
}

TEST_CASE("groups that do not divide are refused with the numbers") {
  const Experiment e = test::testbed_b();
  Parallelism p = e.parallelism;
  p.dp = 7;
  CHECK_THROWS_WITH(validate(p, e.cluster, e.model), Contains("pp 1 x dp 7 x mp 4 = 28 ranks") && Contains("32 GPUs"));
  p = e.parallelism;
  p.ep = 16;
  p.esp = 2;
  CHECK_THROWS_WITH(validate(p, e.cluster, e.model),
                    Contains("/parallelism/ep: ep 16 does not divide the model's 8 experts; 8 would"));
  p = e.parallelism;
  p.mp = 0;
  CHECK_THROWS_AS(validate(p, e.cluster, e.model), InputError);
}
