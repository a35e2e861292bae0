// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/fsmoe_layers.hpp"

#include <catch2/catch.hpp>

#include "models/question/volumes.hpp"

using namespace dovetail;

TEST_CASE("Table 4 of FSMoE: 1,458 layers on each testbed, grouped as the paper does") {
  for (char testbed : {'a', 'b'}) {
    const std::vector<Experiment> layers = bench::fsmoe_layers(testbed);
    CHECK(layers.size() == 3 * 3 * 3 * 3 * 3 * 3 * 2);
    for (const Experiment& e : layers) {
      if (e.parallelism.mp != e.cluster.gpus_per_node || e.parallelism.esp != e.cluster.gpus_per_node) FAIL("mp, esp");
      if (e.parallelism.ep != e.cluster.nodes || e.model.experts != e.cluster.nodes) FAIL("experts");
    }
  }
  const std::vector<Experiment> b = bench::fsmoe_layers('b');
  // T = 256 / 4 tokens a rank, C = ceil(2 * 1.2 * 64 / 8) = 20
  CHECK(layer_volumes(b.front()).capacity == 20);
  CHECK(b.front().model.expert_hidden == 2 * 1024);
  CHECK(b.front().model.expert_kind == ExpertKind::Ffn);
  // T = 4 * 1024 / 4, without a factor C = 2 * 1024 / 8
  CHECK(layer_volumes(b.back()).capacity == 256);
  CHECK(b.back().model.attention.head_size == 4096 / 32);
  CHECK(b.back().model.expert_kind == ExpertKind::Gated);
}
