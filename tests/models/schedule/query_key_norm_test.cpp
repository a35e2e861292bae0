// SPDX-License-Identifier: Apache-2.0
// Norms of queries and keys in schedules: work, memory and launches by hand.
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/schedule/launches.hpp"
#include "models/schedule/shards.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// 16 tokens, M 8, 2 heads and 2 key heads of 4: Q = K = 8 on one model-parallel rank; fp32.
Experiment layer_with_norms() {
  Experiment e = round_numbers(1);
  e.workload.extent = Extent::WholeLayers;
  e.parallelism = {.dp = 4, .mp = 1, .ep = 2, .esp = 2};
  return e;
}

Experiment latent_layer() {
  Experiment e = layer_with_norms();
  e.model.attention = {.heads = 2,
                       .kv_heads = 2,
                       .head_size = 6,
                       .kind = AttentionKind::Latent,
                       .q_rank = 5,
                       .kv_rank = 3,
                       .nope_size = 4,
                       .rope_size = 2,
                       .value_size = 4};
  return e;
}

const Op& op_of_pass(const Schedule& s, OpKind kind, Phase phase) {
  return *std::ranges::find_if(s.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; });
}

std::int64_t elements_in(const Schedule& s, TensorKind kind) {
  std::int64_t elements = 0;
  for (const Tensor& t : s.tensors) elements += t.kind == kind ? t.elements : 0;
  return elements;
}

int launched(const Schedule& s, Phase phase) {
  int sum = 0;
  for (const Op& op : s.ops) sum += op.phase == phase ? launches_of(op) : 0;
  return sum;
}

}  // namespace

TEST_CASE("Norms of queries and keys: weights behind those of the layer, what is kept, and what is read and written") {
  Experiment e = layer_with_norms();
  const Schedule plain = build_step(e, {});
  CHECK(elements_in(plain, TensorKind::NormWeights) == 2 * 8);
  CHECK(std::ranges::count(plain.ops, OpKind::QueryKeyNorm, &Op::kind) == 0);
  const auto [norm, weights] = GENERATE(std::pair{QkNorm::Head, 2 * 4}, std::pair{QkNorm::Width, 8 + 8});
  e.model.attention.qk_norm = norm;
  const Scope scope = GENERATE(Scope::Layer, Scope::Block);
  Plan plan;
  plan.scope = scope;
  if (scope == Scope::Block) plan.forward_degree = plan.backward_degree = 2;
  const Schedule s = build_step(e, plan);
  validate(s);
  CHECK(elements_in(s, TensorKind::NormWeights) == 2 * 8 + weights);
  CHECK(elements_in(s, TensorKind::ReplicatedGradients) == 2 * 8 + weights + 8 * 4);  // with the router
  CHECK(elements_in(s, TensorKind::QueryKeyInput) == 16 * 16);
  // Once normed, queries and keys are turned by their positions: read and written again.
  CHECK(op_of_pass(s, OpKind::QueryKeyNorm, Phase::Forward).memory_traffic() == Bytes((2 + 2) * 16 * 16 * 4));
  const Op& backward = op_of_pass(s, OpKind::QueryKeyNorm, Phase::Backward);
  CHECK(backward.memory_traffic() == Bytes((3 + 2) * 16 * 16 * 4));
  CHECK(backward.gradients == RowRange{16, 16 + weights});
  // Two norms forward, and two gradients of each; all else is launched as before.
  if (scope == Scope::Block) return;
  CHECK(launched(s, Phase::Forward) == launched(plain, Phase::Forward) + 2);
  CHECK(launched(s, Phase::Backward) == launched(plain, Phase::Backward) + 4);
}

TEST_CASE("Queries and keys are turned by their positions where they are ready for the scores, by hand", "[rotary]") {
  Experiment e = layer_with_norms();
  const bool norms = GENERATE(false, true);
  if (norms) e.model.attention.qk_norm = QkNorm::Head;
  Plan plan;
  plan.scope = Scope::Block;
  plan.forward_degree = plan.backward_degree = 2;
  const Schedule s = build_step(e, plan);
  e.workload.extent = Extent::Layers;
  const Schedule layers = build_step(e, plan);
  for (const Phase phase : {Phase::Forward, Phase::Backward}) {
    // A kernel each for queries and keys, which are read and written.
    const Op& projection = op_of_pass(s, OpKind::Projection, phase);
    CHECK(projection.memory_traffic() == (norms ? Bytes(0) : Bytes(2 * 16 * 16 * 4)));
    CHECK(op_of_pass(layers, OpKind::Projection, phase).memory_traffic() == Bytes(0));
    const int products = phase == Phase::Forward ? 1 : 2;  // those of queries, keys and values are one
    CHECK(launches_of(projection) == products + (norms ? 0 : 2));
    if (norms) CHECK(launches_of(op_of_pass(s, OpKind::QueryKeyNorm, phase)) == (phase == Phase::Forward ? 4 : 6));
  }
}

TEST_CASE("A norm over heads of several ranks sums squares over these, and products backward") {
  Experiment e = layer_with_norms();
  e.parallelism = {.dp = 2, .mp = 2, .ep = 2, .esp = 2};  // 16 tokens, 8 of them here; one head here
  e.model.attention.qk_norm = QkNorm::Width;
  const Schedule s = build_step(e, {});
  validate(s);
  CHECK(elements_in(s, TensorKind::NormWeights) == 2 * 8 + 8 + 8);  // those of all heads
  CHECK(elements_in(s, TensorKind::QueryKeyInput) == 16 * 8);       // a query and a key of 4
  std::vector<const Op*> norms, sums;
  for (const Op& op : s.ops) {
    if (op.kind == OpKind::QueryKeyNorm) norms.push_back(&op);
    if (op.kind == OpKind::MpAllReduce) sums.push_back(&op);
  }
  REQUIRE(sums.size() == 2);
  for (const Op* op : sums) CHECK(op->message() == Bytes(16 * 2 * 4));  // of each token's queries and keys, in fp32
  REQUIRE(norms.size() == 4);
  const double all = 16 * 8 * 4;
  CHECK(norms[0]->memory_traffic() == Bytes(all));            // read
  CHECK(norms[1]->memory_traffic() == Bytes((2 + 2) * all));  // normed, and turned
  CHECK(norms[2]->memory_traffic() == Bytes((2 + 2) * all));  // turned back; gradients and inputs are read
  CHECK(norms[3]->memory_traffic() == Bytes(3 * all));
  CHECK(launches_of(*norms[0]) == 2);
  CHECK(launches_of(*norms[2]) == 2 + 2);
  CHECK(launches_of(*norms[3]) == 4);
}

TEST_CASE("Low ranks of latent attention have norms of their own") {
  Experiment e = latent_layer();
  const Schedule s = build_step(e, {});
  CHECK(elements_in(s, TensorKind::NormWeights) == 2 * 8 + 5 + 3);
  CHECK(elements_in(s, TensorKind::QueryKeyInput) == 16 * (5 + 3));
  CHECK(op_of_pass(s, OpKind::QueryKeyNorm, Phase::Forward).memory_traffic() == Bytes(2 * 16 * 8 * 4));
  CHECK(launches_of(op_of_pass(s, OpKind::QueryKeyNorm, Phase::Forward)) == 2);  // turned by the projections after it
  e.model.attention.q_rank = 0;                                                  // queries are made at once
  CHECK(elements_in(build_step(e, {}), TensorKind::QueryKeyInput) == 16 * 3);
  e.workload.extent = Extent::Layers;
  CHECK(elements_in(build_step(e, {}), TensorKind::QueryKeyInput) == 0);
}

TEST_CASE("Model-parallel ranks make low ranks of their own tokens, and gather these") {
  Experiment e = latent_layer();
  e.parallelism = {.dp = 2, .mp = 2, .ep = 2, .esp = 2};  // 16 tokens, 8 of them here; a head of two here
  const int q_rank = GENERATE(5, 0);
  e.model.attention.q_rank = q_rank;
  const int width = q_rank + 3 + 2;
  const Schedule s = build_step(e, {});
  validate(s);
  // Both gathers or one: of the tokens that queries are made from straight, and of low ranks.
  const auto messages = [&](Phase phase) {
    Bytes sum(0);
    for (const Op& op : s.ops)
      if (op.kind == OpKind::MpAllGather && op.phase == phase) sum += op.message();
    return sum;
  };
  const Bytes gathered(16. * ((q_rank > 0 ? 0 : 8) + width) * 4);
  CHECK(messages(Phase::Forward) == gathered);
  CHECK(messages(Phase::Backward) == gathered);
  CHECK(op_of_pass(s, OpKind::MpReduceScatter, Phase::Forward).message() == Bytes(16 * 8 * 4));
  CHECK(elements_in(s, TensorKind::QueryKeyInput) == 8 * (q_rank + 3));
  // Down: 8 tokens. Up: 16 tokens to one head's query of 6, and to its key and value of 4 each.
  const double down = 2. * 8 * 8 * width, up = 2. * 16 * ((q_rank > 0 ? q_rank : 8) * 6 + 3 * 8);
  const auto projections = [&](Phase phase) {
    std::vector<const Op*> all;
    for (const Op& op : s.ops)
      if (op.kind == OpKind::Projection && op.phase == phase) all.push_back(&op);
    REQUIRE(all.size() == 2);
    return all;
  };
  CHECK(projections(Phase::Forward)[0]->flops() == Flops(down));
  CHECK(projections(Phase::Forward)[1]->flops() == Flops(up));
  CHECK(projections(Phase::Backward)[0]->flops() == Flops(2 * up));
  // The weights of the projections down need the own tokens again.
  const Op& last = *projections(Phase::Backward)[1];
  CHECK(last.flops() == Flops(2 * down));
  const auto reads = s.reads_of(last);
  REQUIRE(reads.size() == (q_rank > 0 ? 3 : 4));
  CHECK(s.tensors[reads[1]].kind == TensorKind::NormedInput);
  CHECK(s.tensors[reads[1]].elements == 8 * 8);
}

TEST_CASE("Gradients of projections to low ranks are summed over the model-parallel ranks, once a step") {
  Experiment e = latent_layer();
  e.model.layers = e.workload.layers = 2;
  e.parallelism = {.dp = 2, .mp = 2, .ep = 2, .esp = 2};
  Plan plan;
  plan.micro_batches = 1;
  plan.zero = GENERATE(0, 1);
  const Schedule s = build_step(e, plan);
  validate(s);
  std::vector<RowRange> summed;
  for (const Op& op : s.ops)
    if (op.kind == OpKind::ReplicatedGradientAllReduce && op.gradients.size() > 0) {
      CHECK(op.group() == GroupKind::Mp);
      CHECK(op.collective() == Collective::AllReduce);
      CHECK(op.message() == Bytes(8 * 10 * 4));  // M (q_rank + kv_rank + rope_size) in fp32
      summed.push_back(op.gradients);
    }
  // The gradients of the last layer come first, and each layer's begin with these. A layer here: (8, 10), (5, 6),
  // (3, 4), (3, 4) and (4, 8).
  const std::int64_t layer = 80 + 30 + 12 + 12 + 32;
  CHECK(summed == std::vector<RowRange>{{layer, layer + 80}, {0, 80}});
  // Both ranks of the group update them, which the norm of all gradients must not count twice.
  std::int64_t once = 0, twice = 0;
  for (const GradientShare& share : gradient_shares(s, 0, 0)) {
    if (s.tensors[share.tensor].kind != TensorKind::DenseGradients) continue;
    const int replicas = plan.zero == 1 ? 1 : 2;  // of dp
    CHECK((share.copies == replicas || share.copies == 2 * replicas));
    (share.copies == replicas ? once : twice) += share.elements.size();
  }
  const int shards = plan.zero == 1 ? 2 : 1;
  CHECK(once + twice == 2 * layer / shards);
  CHECK((plan.zero == 1 || twice == 2 * 80));
}
