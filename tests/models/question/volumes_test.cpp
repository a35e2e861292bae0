// SPDX-License-Identifier: Apache-2.0
#include "models/question/volumes.hpp"

#include <catch2/catch.hpp>

#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

TEST_CASE("Mixtral on testbed B: volumes of FSMoE section 3.1") {
  const LayerVolumes v = layer_volumes(test::testbed_b());
  const RowRange rows{0, 20};
  CHECK(v.sequence_tokens == 256);
  CHECK(v.tokens == 64);                             // 256 / mp 4
  CHECK(v.capacity == 20);                           // ceil(2 * 1.2 * 64 / 8 = 19.2)
  CHECK(v.local_experts == 1);                       // 8 / ep 8
  CHECK(v.hidden_shard == 3584);                     // 14336 / esp 4
  CHECK(v.all_to_all_elements(rows) == 655360);      // 20 * 8 experts * 4096
  CHECK(v.gathered_elements(rows) == 4LL * 655360);  // esp 4
  CHECK(v.expert_rows(rows) == 640);                 // 20 rows of each of ep 8 x esp 4 ranks
  // 640 rows * 4096 * 3584 * 3 GEMMs multiply-adds = n_ag * H / N_ESP * g
  CHECK(v.expert_flops(v.expert_rows(rows)).value() == 2.0 * 2621440 * 3584 * 3);
  CHECK(v.dense_parameters == 4096LL * 4096 * 5 / 2 / 4);  // grouped-query 8 of 32: 2.5 M^2 / mp
  CHECK(v.expert_parameters == 3LL * 4096 * 3584);
  CHECK(v.attention_parameters == 10485760);
  CHECK(v.attention_score_flops.value() == 4.0 * 256 * 256 * 1024 / 2);  // 8 of 32 heads of 128, causal half
}

TEST_CASE("Layers with windows compute the scores of their windows, and each layer has the mean of all") {
  Experiment e = test::testbed_b();
  e.workload.sequence = 256;
  const double whole = layer_volumes(e).attention_score_flops.value();
  e.model.attention.window = 64;
  e.model.attention.windowed_layers = 16;  // of 32
  // A sliding window of 64 leaves 64 x 256 - 64^2 / 2 = 14336 of the 256^2 / 2 = 32768 scores: 7 / 16.
  CHECK(layer_volumes(e).attention_score_flops.value() == Approx(whole * (1 + 7. / 16) / 2));
  CHECK(seen_positions(e) == Approx(128 * (1 + 7. / 16) / 2));
  e.model.attention.windows = Windows::Chunks;  // 4 chunks with 64^2 / 2 each: a quarter
  CHECK(layer_volumes(e).attention_score_flops.value() == Approx(whole * (1 + 1. / 4) / 2));
  e.model.attention.window = 256;
  CHECK(layer_volumes(e).attention_score_flops.value() == whole);
  e.model.attention.window = 64;
  e.workload.attention = AttentionKernel::Eager;  // products of whole squares
  CHECK(layer_volumes(e).attention_score_flops.value() == 2 * whole);
}

TEST_CASE("heads that mp does not divide are padded in whole groups") {
  Experiment e = test::testbed_b();
  e.model.attention = {25, 25, 64};  // GPT2-XL over mp 4: 28 heads, 7 on each rank
  CHECK(layer_volumes(e).query_heads == 7);
  CHECK(layer_volumes(e).dense_parameters == 4096LL * 4 * 7 * 64);
  e.model.attention = {24, 6, 128};  // 6 groups of 4 heads over mp 4: 2 groups on each rank
  CHECK(layer_volumes(e).query_heads == 8);
  CHECK(layer_volumes(e).key_value_width == 256);
}

TEST_CASE("capacity is the exact ceiling, not a rounding error above it") {
  Experiment e = test::round_numbers();  // T = 8, E = 4, k = 2: C = 4 f
  for (const auto& [factor, capacity] : {std::pair{1.0, 4}, {1.25, 5}, {1.2, 5}, {0.75, 3}, {0.1, 1}, {1.1, 5}}) {
    e.workload.capacity_factor = factor;
    CHECK(layer_volumes(e).capacity == capacity);
  }
}

TEST_CASE("chunks cover the capacity in order and differ by at most one row") {
  for (std::int64_t capacity : {1, 5, 20, 307})
    for (int degree = 1; degree <= capacity && degree <= 32; ++degree) {
      std::int64_t next = 0;
      for (int chunk = 0; chunk < degree; ++chunk) {
        const RowRange rows = chunk_rows(capacity, degree, chunk);
        REQUIRE(rows.first == next);
        REQUIRE((rows.size() == capacity / degree || rows.size() == capacity / degree + 1));
        next = rows.last;
      }
      REQUIRE(next == capacity);
    }
}

TEST_CASE("dense layers and shared experts share their hidden size over mp") {
  Experiment e = test::round_numbers(4);  // M 8, mp 2, two GEMMs
  e.model.first_dense = 1;
  e.model.moe_every = 2;  // dense, MoE, dense, MoE
  e.model.dense_hidden = 24;
  e.model.shared_experts = {3, 10, false};
  const std::int64_t attention = 8 * 4 * 4;  // 1 of 2 heads of 4 on each rank: four matrices of 8 x 4
  CHECK(layer_volumes(e).moe);
  CHECK(layer_volumes(e, 0).ffn_hidden == 12);
  CHECK(layer_volumes(e, 1).ffn_hidden == 15);  // 3 x 10 / 2
  CHECK(dense_elements(e, StageLayout(e.workload.layers)) ==
        std::vector<std::int64_t>{attention + 2 * 8 * 12, attention + 2 * 8 * 15, attention + 2 * 8 * 12,
                                  attention + 2 * 8 * 15});
  CHECK(layer_volumes(e, 0).parameters() == layer_volumes(e, 0).dense_parameters);
  CHECK(layer_volumes(e, 0).ffn_parameters == 2 * 8 * 12);
  e.workload.layers = 1;
  CHECK_THROWS_WITH(validate(e), Catch::Contains("1, but the first MoE layer of round is its number 2"));
  e.workload.layers = 4;
  e.model.dense_hidden = 25;
  CHECK_THROWS_WITH(validate(e), Catch::Contains("/parallelism/mp: mp 2 does not divide the hidden size 25"));
}

TEST_CASE("default groups take as much of a node as divides") {
  Experiment e = test::round_numbers(1);
  e.cluster.gpus_per_node = 72;
  e.cluster.nodes = 1;
  e.model.attention = {32, 8, 4};
  e.model.expert_hidden = 100;
  const Parallelism p = default_parallelism(e.cluster, e.model);
  CHECK(p.mp == 8);   // 72 are above the 8 key heads; 8 is the largest power of two that divides 72
  CHECK(p.esp == 4);  // gcd(72, 100)
  CHECK(p.dp == 9);
  CHECK(p.ep == 2);  // gcd(4 experts, 72 / 4)
  CHECK(p.edp == 9);
}

TEST_CASE("a micro-batch of a dropless step takes the rows that its own tokens need") {
  // 8 samples of 64 tokens, 2 of 4 experts each, evenly: 8 * 64 * 2 / 4 = 256 rows, of one of 8 parts 32.
  Experiment e = test::testbed_b(1);
  e.parallelism.mp = 1;
  e.model.experts = 4;
  e.workload.batch = 8;
  e.workload.sequence = 64;
  e.workload.top_k = 2;
  e.workload.capacity_factor = 0;
  for (const RoutingKind kind : {RoutingKind::Router, RoutingKind::Uniform}) {
    e.workload.routing.kind = kind;
    resolve_capacity(e);
    CHECK(e.workload.capacity_rows == 256);
    CHECK(layer_volumes(one_micro_batch(e, 8)).capacity == 32);
  }
  // Loads that a router really made count in its place, up to the 64 tokens that there are.
  e.workload.routing.kind = RoutingKind::Router;
  e.workload.router_loads = {{1, 300}, {8, 50}};
  resolve_capacity(e);
  CHECK(e.workload.capacity_rows == 300);
  CHECK(layer_volumes(one_micro_batch(e, 8)).capacity == 50);
  e.workload.router_loads = {{8, 70}};
  CHECK(layer_volumes(one_micro_batch(e, 8)).capacity == 64);
}
