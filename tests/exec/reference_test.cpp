// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/reference.hpp"

#include <catch2/catch.hpp>

#include "models/base/names.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("The reference's gradients are those of finite differences") {
  SmallExperiment sizes;
  sizes.dp = 2;
  sizes.layers = 2;
  sizes.sequence = 4;
  sizes.hidden = 4;
  sizes.expert_hidden = 3;
  sizes.heads = 2;
  sizes.kv_heads = 1;
  sizes.head_size = 2;
  sizes.capacity_factor = .75;
  sizes.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  const Experiment e = small_experiment(sizes);
  ModelData data = random_model_data(e, 5);
  const Reference r = compute_reference(e, data);
  CHECK(r.dropped > 0);
  const auto loss = [&] { return dovetail::test::dot(compute_reference(e, data).output, data.output_gradient); };
  CHECK(gradient_error(data.input, r.input_gradient, loss) < 1e-6);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    LayerWeights& w = data.layers[layer];
    const LayerWeights& g = r.gradients[layer];
    CHECK(gradient_error(w.query, g.query, loss) < 1e-6);
    CHECK(gradient_error(w.key, g.key, loss) < 1e-6);
    CHECK(gradient_error(w.value, g.value, loss) < 1e-6);
    CHECK(gradient_error(w.output, g.output, loss) < 1e-6);
    CHECK(gradient_error(w.router, g.router, loss) < 1e-6);
    CHECK(gradient_error(w.w1, g.w1, loss) < 1e-6);
    CHECK(gradient_error(w.w2, g.w2, loss) < 1e-6);
    if (!w.w3.empty()) CHECK(gradient_error(w.w3, g.w3, loss) < 1e-6);
  }
}

TEST_CASE("Every gate's gradients through the whole layer are those of finite differences") {
  SmallExperiment sizes;
  sizes.dp = 2;
  sizes.sequence = 6;
  sizes.hidden = 4;
  sizes.expert_hidden = 3;
  sizes.heads = sizes.kv_heads = 1;
  sizes.kind = ExpertKind::Gated;
  Experiment e = small_experiment(sizes);
  e.workload.gate.kind = GENERATE(GateKind::Gshard, GateKind::Sigmoid, GateKind::XMoe, GateKind::Cosine,
                                  GateKind::ExpertChoice, GateKind::SoftMoe);
  INFO(name_in(gate_kind_names, e.workload.gate.kind));
  e.workload.capacity_factor = .7;  // 2.1 -> 3 rows of 12 choices over 4 experts
  const bool drops = e.workload.gate.token_choice();
  if (drops) {
    e.workload.routing.kind = RoutingKind::Zipf;
    e.workload.gate.renormalise = true;
  }
  ModelData data = random_model_data(e, 5);
  const Reference r = compute_reference(e, data);
  CHECK((r.dropped > 0) == drops);
  const auto loss = [&] { return dovetail::test::dot(compute_reference(e, data).output, data.output_gradient); };
  CHECK(gradient_error(data.input, r.input_gradient, loss) < 1e-6);
  CHECK(gradient_error(data.layers[0].router, r.gradients[0].router, loss) < 1e-6);
  CHECK(gradient_error(data.layers[0].w1, r.gradients[0].w1, loss) < 1e-6);
}

TEST_CASE("Shards cut heads for attention, experts and their hidden size for experts") {
  SmallExperiment sizes;
  sizes.mp = sizes.esp = 2;
  sizes.dp = sizes.ep = 2;
  sizes.hidden = 2;
  sizes.heads = sizes.kv_heads = 2;
  sizes.head_size = 1;
  sizes.experts = 2;
  sizes.expert_hidden = 2;
  const Experiment e = small_experiment(sizes);
  LayerWeights w = zero_weights(e, 0);
  w.query = {1, 2, 3, 4};
  w.key = {11, 12, 13, 14};
  w.value = {21, 22, 23, 24};
  w.output = {31, 32, 33, 34};
  w.w1 = {1, 2, 3, 4, 5, 6, 7, 8};
  w.w2 = {11, 12, 13, 14, 15, 16, 17, 18};
  CHECK(dense_shard(e, w, 0) == Values{1, 3, 11, 13, 21, 23, 31, 32});
  CHECK(dense_shard(e, w, 3) == Values{2, 4, 12, 14, 22, 24, 33, 34});
  CHECK(expert_shard(e, w, 1) == Values{2, 4, 13, 14});  // expert 0, second half
  CHECK(expert_shard(e, w, 2) == Values{5, 7, 15, 16});  // expert 1, first half
}
