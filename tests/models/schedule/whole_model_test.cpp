// SPDX-License-Identifier: Apache-2.0
// Norms, embedding, output head and loss in schedules: work and memory by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "models/base/errors.hpp"
#include "models/question/model_flops.hpp"
#include "models/schedule/launches.hpp"
#include "models/schedule/operands.hpp"
#include "models/schedule/schedule.hpp"
#include "models/schedule/shards.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// 1 sample of 16 tokens, M 8, 4 experts (M x 16 and back), 10 words; fp32. mp ranks share the dense part.
Experiment whole(int mp, int pp = 1) {
  Experiment e = round_numbers(2);
  e.model.vocabulary = 10;
  e.workload.extent = Extent::Model;
  e.parallelism = {4 / mp, mp, 2, 2, pp, 1};
  e.cluster.nodes = 2 * pp;
  return e;
}

double bytes_of(const Schedule& s, int rank_class, bool (*wanted)(const Tensor&)) {
  double bytes = 0;
  for (const Tensor& t : s.tensors)
    if (t.rank_class == rank_class && wanted(t)) bytes += t.bytes().value();
  return bytes;
}

bool is_weight(const Tensor& t) {
  return t.persistent && roles::weights.covers(t);
}
bool is_gradient(const Tensor& t) {
  return t.kind == TensorKind::DenseGradients || t.kind == TensorKind::ReplicatedGradients ||
         t.kind == TensorKind::ExpertGradient || t.kind == TensorKind::RouterGradient;
}
bool is_state(const Tensor& t) {
  return t.kind == TensorKind::OptimizerState;
}

const Op& find_op(const Schedule& s, OpKind kind, Phase phase) {
  return *std::ranges::find_if(s.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; });
}

void check_bytes(const Schedule& s, int rank_class, std::int64_t parameters) {
  CHECK(bytes_of(s, rank_class, is_weight) == 4. * static_cast<double>(parameters));
  CHECK(bytes_of(s, rank_class, is_gradient) == 4. * static_cast<double>(parameters));
  CHECK(bytes_of(s, rank_class, is_state) == 8. * static_cast<double>(parameters));  // two moments in fp32
}

}  // namespace

TEST_CASE("Memory of weights, gradients and Adam's states of a whole model, by hand, in three layouts") {
  // Attention of 2 heads of 4, 2 kv heads: 4 x 8 x 8 = 256. Router 8 x 4 = 32. Norms 2 x 8 = 16 a layer, 8 at the end.
  // Experts of a rank with ep 2 and esp 2: 2 x (2 x 8 x 8) = 256. Embedding and head 10 x 8 = 80 each.
  SECTION("one model-parallel rank: 2 (256 + 32 + 16 + 256) + 80 + 80 + 8") {
    check_bytes(build_step(whole(1), {}), 0, 2 * (256 + 32 + 16 + 256) + 168);
  }
  SECTION("two of them: attention and words in halves, the rest on both") {
    check_bytes(build_step(whole(2), {}), 0, 2 * (128 + 32 + 16 + 256) + 40 + 40 + 8);
  }
  SECTION("an output head with the embedding's weights: on one stage one matrix, on several one at each end") {
    Experiment e = whole(1);
    const double flops = model_flops(e).active_parameters;
    e.model.tied_embeddings = true;
    check_bytes(build_step(e, {}), 0, 2 * (256 + 32 + 16 + 256) + 88);
    CHECK(model_flops(e).active_parameters == flops);
    e = whole(1, 4);
    e.model.layers = e.workload.layers = 4;
    e.model.tied_embeddings = true;
    const Schedule s = build_step(e, {});
    check_bytes(s, 0, 256 + 32 + 16 + 256 + 80);
    check_bytes(s, 1, 256 + 32 + 16 + 256);
    check_bytes(s, 3, 256 + 32 + 16 + 256 + 80 + 8);
    const auto arrives = [](const Tensor& t) { return t.kind == TensorKind::SharedGradient; };
    CHECK(bytes_of(s, 0, arrives) == 80 * 4);
    CHECK(bytes_of(s, 1, arrives) == 0);
    CHECK(bytes_of(s, 3, arrives) == 80 * 4);
  }
  SECTION("two pipeline stages: the embedding on the first, head and final norm on the last") {
    const Schedule s = build_step(whole(1, 2), {});
    check_bytes(s, 0, 256 + 32 + 16 + 256 + 80);
    check_bytes(s, 1, 256 + 32 + 16 + 256 + 80 + 8);
  }
}

TEST_CASE("Tied embeddings at both ends of a pipeline exchange their gradients once a step, and update after that") {
  Experiment e = whole(2, 4);
  e.model.layers = e.workload.layers = 4;
  e.model.tied_embeddings = true;
  e.workload.batch = 2;
  Plan plan;
  plan.micro_batches = 2;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  const Schedule s = build_step(e, plan);
  validate(s);
  const auto of_embedding = [&](const Op& op) { return s.tensors[s.writes_of(op).front()].kind; };
  std::vector<const Op*> sends;
  for (const Op& op : s.ops)
    if (op.kind == OpKind::StageSend && of_embedding(op) == TensorKind::SharedGradient) sends.push_back(&op);
  REQUIRE(sends.size() == 2);  // of 5 words by 8 each, half of them on each mp rank
  for (const Op* send : sends) {
    CHECK(send->message() == Bytes(40 * 4));
    CHECK(s.tensors[s.writes_of(*send).front()].rank_class == 3 - s.class_of(*send));
  }
  for (const int stage : {0, 3}) {
    // The head and the embedding add to one range; the sum of both stages reads it last, before the update.
    RowRange sum;
    std::vector<OpKind> order;
    for (const Op& op : s.ops) {
      if (s.class_of(op) != stage) continue;
      if (op.kind == OpKind::Residual && s.tensors[s.reads_of(op).front()].kind == TensorKind::SharedGradient) {
        sum = op.gradients;
        CHECK(op.memory_traffic() == Bytes(3 * 40 * 4));  // two are read and one is written
        order.push_back(op.kind);
      }
      if (op.kind == OpKind::GradientNorm || op.kind == OpKind::Update) order.push_back(op.kind);
    }
    CHECK(order == std::vector{OpKind::Residual, OpKind::GradientNorm, OpKind::Update});
    const OpKind adds = stage == 0 ? OpKind::Embedding : OpKind::OutputHead;
    for (const Op& op : s.ops)
      if (op.kind == adds && op.phase == Phase::Backward && s.class_of(op) == stage) CHECK(op.gradients == sum);
  }
}

TEST_CASE("With ZeRO-1 a rank updates the same shard of a tied embedding on both stages") {
  Experiment e = whole(1, 2);
  e.model.tied_embeddings = true;
  Plan plan;
  plan.zero = 1;
  plan.grad_sync = GENERATE(GradSync::After, GradSync::WithDense, GradSync::FixedChunks);
  plan.gradient_chunk_bytes = 4 * 150;
  const Schedule s = build_step(e, plan);
  validate(s);
  // A layer has 256 dense parameters, and the embedding of 80 follows it: four ranks have 20 of these each.
  for (int rank = 0; rank < 4; ++rank)
    for (int stage : {0, 1}) {
      std::vector<RowRange> shards;
      for (const GradientShare& share : gradient_shares(s, stage, rank))
        if (s.tensors[share.tensor].kind == TensorKind::DenseGradients && share.elements.first >= 256) {
          shards.push_back(share.elements);
          CHECK(share.copies == 2);
        }
      CHECK(shards == std::vector{RowRange{256 + 20 * rank, 256 + 20 * (rank + 1)}});
    }
}

TEST_CASE("A vocabulary that the ranks do not divide is rounded up to as many words on each") {
  Experiment e = whole(2);
  e.model.vocabulary = 11;
  CHECK(end_volumes(e).words == 6);
  CHECK(end_volumes(e).head_parameters == 48);
  e.workload.extent = Extent::WholeLayers;
  CHECK_FALSE(end_volumes(e).exist());
}

TEST_CASE("The work of embedding, norms, output head and loss") {
  const Schedule s = build_step(whole(2), {});
  // Forward a product (16, 5) of 8: 2 x 16 x 5 x 8 = 1280 flops; backward two of these.
  CHECK(find_op(s, OpKind::OutputHead, Phase::Forward).flops() == Flops(1280));
  CHECK(find_op(s, OpKind::OutputHead, Phase::Backward).flops() == Flops(2560));
  // Rows of 8 numbers: 16 positions are read and written, 32 bytes each; backward a third pass.
  CHECK(find_op(s, OpKind::Embedding, Phase::Forward).memory_traffic() == Bytes(2 * 16 * 32));
  CHECK(find_op(s, OpKind::Embedding, Phase::Backward).memory_traffic() == Bytes(3 * 16 * 32));
  // A rank's 8 tokens: read and written; backward two gradients and the input are read, one is written.
  CHECK(find_op(s, OpKind::Norm, Phase::Forward).memory_traffic() == Bytes(2 * 8 * 32));
  CHECK(find_op(s, OpKind::Norm, Phase::Backward).memory_traffic() == Bytes(4 * 8 * 32));
  // 16 x 5 logits of 4 bytes: one pass for the statistics, two to replace them by their gradient.
  CHECK(find_op(s, OpKind::LossStatistics, Phase::Forward).memory_traffic() == Bytes(16 * 5 * 4));
  CHECK(find_op(s, OpKind::Loss, Phase::Forward).memory_traffic() == Bytes(2 * 16 * 5 * 4));
  // Three fp32 numbers of each of 16 positions from both ranks.
  CHECK(find_op(s, OpKind::GatherStatistics, Phase::Forward).message() == Bytes(2 * 16 * 3 * 4));
}

TEST_CASE("Dense gradients hold the head's first and the embedding's last, all of them are reduced") {
  for (const GradSync sync : {GradSync::After, GradSync::WithDense, GradSync::FixedChunks}) {
    Plan plan;
    plan.grad_sync = sync;
    plan.gradient_chunk_bytes = 400;
    const Schedule s = build_step(whole(2), plan);
    CHECK(find_op(s, OpKind::OutputHead, Phase::Backward).gradients == RowRange{0, 40});
    CHECK(find_op(s, OpKind::Embedding, Phase::Backward).gradients == RowRange{40 + 2 * 128, 80 + 2 * 128});
    std::int64_t reduced = 0;
    for (const Op& op : s.ops)
      if (op.kind == OpKind::DenseGradientAllReduce) reduced += op.gradients.size();
    CHECK(reduced == 2 * 128 + 80);
    CHECK(std::ranges::count(s.ops, OpKind::ReplicatedGradientAllReduce, &Op::kind) == 2);  // over mp, over dp
  }
}

TEST_CASE("Norms that are ops of their own leave the launches of the step as they were") {
  Experiment e = whole(1);
  const auto launches = [&](Extent extent) {
    e.workload.extent = extent;
    const Schedule s = build_step(e, {});
    int sum = 0;
    for (const Op& op : s.ops) sum += op.phase == Phase::Forward ? launches_of(op) : 0;
    return sum;
  };
  // The gate counts a sum and a norm, attention a norm: one launch each, wherever they are.
  CHECK(launches(Extent::WholeLayers) == launches(Extent::Layers));
  // Embedding; final norm; head's product; statistics; loss.
  CHECK(launches(Extent::Model) == launches(Extent::Layers) + 5);
}

TEST_CASE("ZeRO-1: what is sent, and what each rank keeps, by hand") {
  // As above, with 2 replicas of the experts: 2 x 2 x 256 elements of a rank's experts in two layers, ep 1 and esp 2.
  Experiment e = whole(1);
  e.parallelism = {.dp = 4, .mp = 1, .ep = 1, .esp = 2, .pp = 1, .edp = 2};
  Plan plan;
  const Schedule all = build_step(e, plan);
  plan.zero = 1;
  const Schedule shards = build_step(e, plan);
  const auto sent = [](const Schedule& s, Collective collective) {
    double bytes = 0;
    for (const Op& op : s.ops)
      if (op.collective() == collective && (op.group() == GroupKind::Dp || op.group() == GroupKind::Edp))
        bytes += op.message().value();
    return bytes;
  };
  // Attention 2 x 256, embedding and head 160, routers and norms 2 x (32 + 16) + 8, experts 2 x 512; fp32.
  const double elements = 2 * 256 + 160 + 104 + 2 * 512;
  CHECK(sent(all, Collective::AllReduce) == 4 * elements);
  CHECK(sent(shards, Collective::AllReduce) == 0);
  CHECK(sent(shards, Collective::ReduceScatter) == 4 * elements);
  CHECK(sent(shards, Collective::AllGather) == 4 * elements);
  // A quarter of the dense part and half of the experts: two moments of 4 bytes each.
  CHECK(bytes_of(shards, 0, is_state) == 8 * ((2 * 256 + 160 + 104) / 4. + 2 * 512 / 2.));
  CHECK(bytes_of(shards, 0, is_weight) == 4 * elements);
  CHECK(bytes_of(shards, 0, is_gradient) == 4 * elements);
  CHECK(find_op(shards, OpKind::Update, Phase::Update).memory_traffic().value() ==
        28 * ((2 * 256 + 160 + 104) / 4. + 2 * 512 / 2.));
}

TEST_CASE("Weights gathered ahead: those of a layer before the layer before it, once, none after the update") {
  Experiment e = whole(1, 2);
  e.model.layers = e.workload.layers = 6;
  e.workload.batch = 4;
  Plan plan;
  plan.micro_batches = 2;
  plan.zero = 1;
  plan.parameter_gather = ParameterGather::Ahead;
  const Schedule s = build_step(e, plan);
  validate(s);
  std::vector<int> gathered, order;  // layers of the first stage's gathers, and where attention stands among them
  for (const Op& op : s.ops) {
    if (s.class_of(op) != 0 || op.micro_batch != 0 || op.phase != Phase::Forward) continue;
    if (op.kind == OpKind::ParameterAllGather && op.group() == GroupKind::Dp) gathered.push_back(op.layer);
    if (op.kind == OpKind::Attention) order.push_back(static_cast<int>(gathered.size()));
  }
  // Norms and routers come with the first layer: 0, 0, 1, then attention of layer 0.
  CHECK(gathered == std::vector{0, 0, 1, 2});
  CHECK(order == std::vector{3, 4, 4});
  CHECK(std::ranges::none_of(
      s.ops, [](const Op& op) { return op.kind == OpKind::ParameterAllGather && op.phase == Phase::Update; }));
}

TEST_CASE("Gradients of weights in fp32: their memory, what is reduced and what the update reads") {
  Experiment e = whole(1);
  e.workload.dtype = DType::Bf16;
  const double elements = 2 * (256 + 32 + 16 + 256) + 168;  // of a rank, as above
  const auto reduced = [](const Schedule& s) {
    return find_op(s, OpKind::ReplicatedGradientAllReduce, Phase::Backward).message().value();
  };
  const auto updated = [](const Schedule& s) {
    return find_op(s, OpKind::Update, Phase::Update).memory_traffic().value();
  };
  const Schedule same = build_step(e, {});
  CHECK(bytes_of(same, 0, is_gradient) == 2 * elements);
  CHECK(reduced(same) == 2 * 104);
  CHECK(updated(same) == 28 * elements);
  e.workload.gradients = DType::Fp32;
  const Schedule wide = build_step(e, {});
  CHECK(bytes_of(wide, 0, is_gradient) == 4 * elements);
  CHECK(bytes_of(wide, 0, is_weight) == 2 * elements);
  CHECK(bytes_of(wide, 0, is_state) == 12 * elements);
  CHECK(reduced(wide) == 4 * 104);
  CHECK(updated(wide) == 30 * elements);
  e.workload.gradients = DType::Fp16;
  CHECK_THROWS_AS(build_step(e, {}), InputError);
}
