// SPDX-License-Identifier: Apache-2.0
#include "exec/run/scale_down.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"

using namespace dovetail;
using namespace dovetail::exec;

TEST_CASE("A big experiment in the size of this machine") {
  Experiment big = test::testbed_b(7);
  big.calibration.edit().host = HostCost{Seconds(1e-5), {}};
  const Experiment e = scaled_for_host(big, {});
  CHECK(e.cluster.nodes == 2);
  CHECK(e.cluster.gpus_per_node == 2);
  CHECK(e.model.experts == 4);
  CHECK(e.model.hidden == 128);
  CHECK(e.model.expert_hidden == 256);
  CHECK(e.model.expert_kind == ExpertKind::Gated);
  CHECK(e.workload.layers == 1);
  CHECK(e.workload.top_k == big.workload.top_k);
  CHECK(e.workload.capacity_factor == big.workload.capacity_factor);
  CHECK(layer_volumes(e).tokens == 512);
  CHECK(e.model.attention.heads == 4);
  CHECK(e.model.attention.head_size == 32);
  CHECK(e.parallelism.mp == 2);
  CHECK(e.parallelism.esp == 2);
  CHECK(e.parallelism.ep == 2);
  CHECK(e.parallelism.edp == 1);
  CHECK(e.calibration->collectives.size() == big.calibration->collectives.size());
  CHECK(!e.calibration->host);  // this machine has a host of its own
}

TEST_CASE("Groups of one rank stay so, and each rank keeps its tokens") {
  Experiment big = test::testbed_b(7);
  Parallelism& p = big.parallelism;
  SECTION("experts are not cut") {
    p.ep *= p.esp;
    p.esp = 1;
    const Experiment e = scaled_for_host(big, {});
    CHECK(e.parallelism.mp == 2);
    CHECK(e.parallelism.esp == 1);
    CHECK(e.parallelism.ep == 4);
    CHECK(layer_volumes(e).tokens == 512);
  }
  SECTION("attention is not cut") {
    p.dp *= p.mp;
    p.mp = 1;
    const Experiment e = scaled_for_host(big, {});
    CHECK(e.parallelism.dp == 4);
    CHECK(e.parallelism.mp == 1);
    CHECK(e.parallelism.esp == 2);
    CHECK(layer_volumes(e).tokens == 512);
  }
}

TEST_CASE("A model without experts stays one, and is given none") {
  const Experiment big = test::without_experts(test::testbed_b(7));
  const Experiment e = scaled_for_host(big, {});
  CHECK(e.model.dense());
  CHECK(e.model.dense_hidden == 256);
  CHECK(e.parallelism.ep == 1);
  HostScale scale;
  scale.experts = 8;
  CHECK_THROWS_WITH(scaled_for_host(big, scale), Catch::Contains("8 experts, but mixtral-8x7b has none"));
}

TEST_CASE("CPUs compute in float, unless double is asked for") {
  Experiment big = test::testbed_b();
  CHECK(scaled_for_host(big, {}).workload.dtype == DType::Fp32);
  big.workload.dtype = DType::Bf16;
  CHECK(scaled_for_host(big, {}).workload.dtype == DType::Fp32);
  big.workload.dtype = DType::Fp64;
  GemmCost cost = big.calibration->gemms.front();
  cost.dtype = DType::Fp64;
  big.calibration.edit().gemms.push_back(cost);
  CHECK(scaled_for_host(big, {}).workload.dtype == DType::Fp64);
}

TEST_CASE("Heads of any size fill the hidden size, in the big model's ratio of key heads") {
  Experiment big = test::testbed_b();
  big.model.attention.heads = 32;
  big.model.attention.kv_heads = 8;
  HostScale scale;
  scale.hidden = 1024;
  scale.head_size = 128;
  Attention a = scaled_for_host(big, scale).model.attention;  // 4 heads for each of mp = 2 ranks, 4 to a key head
  CHECK(a.head_size == 128);
  CHECK(a.heads == 8);
  CHECK(a.kv_heads == 2);
  scale.head_size = 1024;  // one for each rank, although they are wider than the tokens
  a = scaled_for_host(big, scale).model.attention;
  CHECK(a.heads == 2);
  CHECK(a.kv_heads == 2);
  scale.head_size = 1025;
  CHECK_THROWS_AS(scaled_for_host(big, scale), InputError);
  scale.head_size = -1;
  CHECK_THROWS_AS(scaled_for_host(big, scale), InputError);
  scale.head_size = 0;
  scale.hidden = 16;
  CHECK(scaled_for_host(big, scale).model.attention.head_size == 16);
}

TEST_CASE(
    "Latent attention stays so, with low ranks in the ratio of the hidden size and heads in that of their values") {
  Experiment big = test::testbed_b(7);  // hidden 4096
  big.model.attention = {.heads = 32,
                         .kv_heads = 32,
                         .head_size = 128 + 64,
                         .kind = AttentionKind::Latent,
                         .q_rank = GENERATE(0, 1536),
                         .kv_rank = 512,
                         .nope_size = 128,
                         .rope_size = 64,
                         .value_size = 128};
  const Experiment e = scaled_for_host(big, {});
  const Attention& a = e.model.attention;
  CHECK(a.kind == AttentionKind::Latent);
  CHECK(a.heads == 128 / 32);
  CHECK(a.kv_heads == a.heads);
  CHECK(a.value_size == 32);
  CHECK(a.nope_size == 32);
  CHECK(a.rope_size == 16);
  CHECK(a.head_size == 48);
  CHECK(a.q_rank == big.model.attention.q_rank * 128 / 4096);  // 0 or 48
  CHECK(a.kv_rank == 32);                                      // not 16, which is fewer than a value has
  CHECK_NOTHROW(build_schedule(e, Plan{}));
}

TEST_CASE("Any even number of ranks builds a schedule") {
  for (int ranks : {2, 4, 6, 8, 12, 16}) {
    HostScale scale;
    scale.ranks = ranks;
    const Experiment e = scaled_for_host(test::testbed_b(), scale);
    CHECK(e.cluster.gpus() == ranks);
    CHECK(e.model.expert_hidden >= 256);
    CHECK_NOTHROW(build_schedule(e, Plan{}));
  }
}

TEST_CASE("Attention runs as a flash kernel, and what no executor runs is refused") {
  Experiment big = test::testbed_b();
  big.workload.attention = AttentionKernel::Eager;
  CHECK(scaled_for_host(big, {}).workload.attention == AttentionKernel::Flash);
  big.workload.causal = false;
  CHECK_THROWS_WITH(scaled_for_host(big, {}), Catch::Contains("/workload/causal"));
  big.workload.causal = true;
  big.workload.products = DType::Fp8;
  CHECK_THROWS_WITH(scaled_for_host(big, {}), Catch::Contains("/workload/products"));
}

TEST_CASE("Layers of multi-token prediction stay when a question is scaled down") {
  const Experiment e = scaled_for_host(test::with_predictions(test::testbed_b(), 1), {});
  CHECK(e.workload.mtp_layers == 1);
  CHECK_NOTHROW(build_schedule(e, Plan{}));
}

TEST_CASE("Sizes may be overridden, and must make sense") {
  HostScale scale;
  scale.layers = 3;
  scale.experts = 8;
  scale.tokens_per_rank = 64;
  const Experiment e = scaled_for_host(test::testbed_b(), scale);
  CHECK(e.workload.layers == 3);
  CHECK(e.model.experts == 8);
  CHECK(layer_volumes(e).tokens == 64);
  for (int ranks : {0, 1, 3, -2}) {
    scale.ranks = ranks;
    CHECK_THROWS_AS(scaled_for_host(test::testbed_b(), scale), InputError);
  }
  scale.ranks = 2;
  scale.hidden = 0;
  CHECK_THROWS_AS(scaled_for_host(test::testbed_b(), scale), InputError);
}

TEST_CASE("Pipeline stages have two nodes each, and the samples stay as many as divide the tokens") {
  Experiment big = test::testbed_b(7);
  big.parallelism.pp = 2;
  big.workload.batch = 8;
  HostScale scale;
  scale.ranks = 8;
  scale.layers = 2;
  const Experiment e = scaled_for_host(big, scale);
  CHECK(e.cluster.nodes == 4);
  CHECK(e.parallelism.pp == 2);
  CHECK(e.parallelism.mp == 2);
  CHECK(e.parallelism.ep == 2);
  CHECK(e.workload.batch == 8);
  CHECK(layer_volumes(e).tokens == 512);
  scale.ranks = 6;
  CHECK_THROWS_AS(scaled_for_host(big, scale), InputError);
}

TEST_CASE("Routing is folded onto fewer experts, and an open capacity resolved for them") {
  Experiment big = test::testbed_b();
  big.workload.capacity_factor = 0;
  big.workload.routing.kind = RoutingKind::Trace;
  big.workload.routing.layers = {{{1, 0, 0, 0, 2, 3, 0, 2}}};  // 8 experts; of 4: 3, 3, 0, 2
  REQUIRE(big.model.experts == 8);
  HostScale scale;
  scale.tokens_per_rank = 16;  // top 2: 32 choices of 16 tokens, 12, 12, 0 and 8
  const Experiment e = scaled_for_host(big, scale);
  CHECK(e.workload.routing.layers == std::vector<LoadTable>{{{3, 3, 0, 2}}});
  CHECK(e.workload.capacity_rows == 12);
}

TEST_CASE("A scale may name its nodes, groups, experts of a token and samples") {
  HostScale scale;
  scale.ranks = 8;
  scale.nodes = 1;
  scale.mp = scale.esp = 1;
  scale.top_k = 1;
  scale.tokens_per_rank = 64;
  scale.sequence = 16;
  Experiment e = scaled_for_host(test::testbed_b(), scale);
  CHECK(e.cluster.nodes == 1);
  CHECK(e.cluster.gpus_per_node == 8);
  CHECK(e.parallelism.dp == 8);
  CHECK(e.parallelism.ep == 8);  // as many as experts
  CHECK(e.parallelism.edp == 1);
  CHECK(e.workload.top_k == 1);
  CHECK(e.workload.batch == 4);
  CHECK(layer_volumes(e).tokens == 64);
  scale.mp = 2;
  scale.ep = 4;
  e = scaled_for_host(test::testbed_b(), scale);
  CHECK(e.parallelism.dp == 4);
  CHECK(e.parallelism.edp == 2);
  CHECK(e.workload.batch == 8);  // mp ranks share the tokens of two
  scale.sequence = 48;
  CHECK_THROWS_WITH(scaled_for_host(test::testbed_b(), scale),
                    Catch::Contains("128 tokens, expected a multiple of the 48"));
  scale.sequence = 0;
  scale.ep = 3;
  CHECK_THROWS_AS(scaled_for_host(test::testbed_b(), scale), InputError);
}
