// SPDX-License-Identifier: Apache-2.0
// Layers of multi-token prediction in schedules: what they hold, do and wait for, by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/model_flops.hpp"
#include "models/question/parameters.hpp"
#include "models/schedule/lowering.hpp"
#include "models/schedule/operands.hpp"
#include "models/schedule/step_builder.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;
using Catch::Matchers::Contains;

namespace {

// One sample of 16 tokens, M 8, 10 words, two layers and `predictions` more; fp32.
Experiment predicting(int mp = 1, int pp = 1, int predictions = 1) {
  Experiment e = round_numbers(2);
  e.model.vocabulary = 10;
  e.model.mtp_layers = e.workload.mtp_layers = predictions;
  e.workload.extent = Extent::Model;
  e.parallelism = {4 / mp, mp, 2, 2, pp, 1};
  e.cluster.nodes = 2 * pp;
  return e;
}

std::vector<const Op*> ops_of(const Schedule& s, OpKind kind, Phase phase, int layer) {
  std::vector<const Op*> ops;
  for (const Op& op : s.ops)
    if (op.kind == kind && op.phase == phase && op.layer == layer) ops.push_back(&op);
  return ops;
}

double weight_bytes(const Schedule& s, int stage) {
  double bytes = 0;
  for (const Tensor& t : s.tensors)
    if (t.rank_class == stage && t.persistent && roles::weights.covers(t)) bytes += t.bytes().value();
  return bytes;
}

Seconds time_of(const Experiment& e, const Plan& plan) {
  std::vector<double> scratch;
  return analytic_makespan(price_plan(e, plan), scratch);
}

}  // namespace

TEST_CASE("A rank alone holds all parameters of a model and of its layers of multi-token prediction", "[mtp]") {
  Experiment e = predicting(1, 1, 2);
  e.cluster.nodes = e.cluster.gpus_per_node = 1;
  e.parallelism = {};
  const Parameters p = parameters(e.model);
  // Layers of 4 x 8 x 8 of attention, 8 x 4 of the router, 4 x 2 x 8 x 16 of experts and 16 of norms. The two that
  // predict have a projection of 16 by 8 and three norms as well.
  const int layer = 256 + 32 + 1024 + 16, prediction = layer + 128 + 24;
  CHECK(p.total() == 2 * layer + 2 * 80 + 8);
  CHECK(p.mtp == 2 * prediction);
  const Schedule s = build_step(e, {});
  CHECK(weight_bytes(s, 0) == 4. * static_cast<double>(p.total() + p.mtp));
  // A token goes through them: 2 of 4 experts, and the output head three times.
  CHECK(model_flops(e).active_parameters == 4 * (256 + 32 + 512) + 2 * 128 + 3 * 80);
}

TEST_CASE("A layer of multi-token prediction looks words up, projects two norms and has a head of its own", "[mtp]") {
  const int mp = GENERATE(1, 2);
  const Schedule s = build_step(predicting(mp), {});
  validate(s);
  // Layer 2 is the one that predicts, and 3 stands for the model's own head.
  for (const Phase phase : {Phase::Forward, Phase::Backward}) {
    CHECK(ops_of(s, OpKind::Embedding, phase, 2).size() == 1);
    CHECK(ops_of(s, OpKind::OutputHead, phase, 2).size() == 1);
    CHECK(ops_of(s, OpKind::OutputHead, phase, 3).size() == 1);
    CHECK(ops_of(s, OpKind::Norm, phase, 2).size() == 5);  // of any layer two; of both inputs, and of the output
    REQUIRE(ops_of(s, OpKind::MtpProjection, phase, 2).size() == 1);
  }
  CHECK(ops_of(s, OpKind::MtpProjection, Phase::Forward, 2).front()->flops() == Flops(2. * 16 * 16 * 8 / mp));
  CHECK(ops_of(s, OpKind::MtpProjection, Phase::Backward, 2).front()->flops() == Flops(2 * 2. * 16 * 16 * 8 / mp));
  CHECK(ops_of(s, OpKind::Loss, Phase::Forward, 2).size() == 1);
  double gathered = 0;
  for (const Op* op : ops_of(s, OpKind::MpAllGather, Phase::Forward, 2)) gathered += op->message().value();
  // Both norms, the projection's columns, attention's input and the head's: 16 rows of 8 each.
  CHECK(gathered == (mp == 1 ? 0 : (2 + 1 + 1 + 1) * 16 * 8 * 4));
  // The model's output gets the gradients of both predictions before its norm's backward pass.
  const auto sums = ops_of(s, OpKind::Residual, Phase::Backward, 3);
  REQUIRE(sums.size() == 1);
  CHECK(s.reads_of(*sums.front()).size() == 2);
}

TEST_CASE("Each layer of multi-token prediction begins with the normed output of the one before", "[mtp]") {
  const Schedule s = build_step(predicting(1, 1, 2), {});
  validate(s);
  const auto before_of = [&](int layer) {
    for (const Op* norm : ops_of(s, OpKind::Norm, Phase::Forward, layer))
      if (const TensorId read = s.reads_of(*norm).front(); s.tensors[read].kind == TensorKind::NormedInput)
        return s.tensors[read].layer;
    return std::int16_t{-1};
  };
  CHECK(before_of(2) == 4);  // the model's own
  CHECK(before_of(3) == 2);
}

TEST_CASE("On several stages the last one has the embedding too, and both exchange its gradient", "[mtp]") {
  const int zero = GENERATE(0, 1);
  Plan plan;
  plan.micro_batches = 2;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  plan.zero = zero;
  Experiment e = predicting(2, 2);
  e.workload.batch = 2;
  const Schedule s = build_step(e, plan);
  validate(s);
  // By mp 2, ep 2 and esp 2: layers of 128 + 32 + 256 + 16; a half of 80 for each end, 64 of the projection.
  const int layer = 128 + 32 + 256 + 16;
  CHECK(weight_bytes(s, 0) == 4. * (layer + 40));
  CHECK(weight_bytes(s, 1) == 4. * (2 * layer + 64 + 24 + 40 + 8 + 40));
  std::vector<const Op*> sends;
  for (const Op& op : s.ops)
    if (op.kind == OpKind::StageSend && s.tensors[s.writes_of(op).front()].kind == TensorKind::SharedGradient)
      sends.push_back(&op);
  REQUIRE(sends.size() == 2);
  for (const Op* send : sends) {
    CHECK(send->message() == Bytes(40 * 4));
    CHECK(send->gradients.size() == 40);
    CHECK(s.tensors[s.writes_of(*send).front()].rank_class == 1 - s.class_of(*send));
  }
  // The norm of all gradients counts what has been exchanged.
  for (int stage : {0, 1}) {
    std::size_t sum = 0, norm = 0;
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      const Op& op = s.ops[OpId(static_cast<int>(i))];
      if (s.class_of(op) != stage) continue;
      if (op.kind == OpKind::Residual && s.tensors[s.reads_of(op).front()].kind == TensorKind::SharedGradient) sum = i;
      if (op.kind == OpKind::GradientNorm) norm = i;
    }
    CHECK(sum > 0);
    CHECK(sum < norm);
  }
}

TEST_CASE("The exchanged gradient arrives whole on the other end, however many stages are between", "[mtp]") {
  Experiment e = predicting(1, 3);
  e.model.layers = e.workload.layers = 3;
  const Schedule s = build_step(e, {});
  for (const Op& op : s.ops) {
    if (op.kind != OpKind::StageSend || s.tensors[s.writes_of(op).front()].kind != TensorKind::SharedGradient) continue;
    const int from = s.class_of(op), to = 2 - from, ranks = s.groups.stage_ranks();
    const LoweredOp sent = lower(s, op, from * ranks + 1), received = lower(s, op, to * ranks + 1);
    const auto& out = std::get<Transfers>(sent.steps.back());
    const auto& in = std::get<Transfers>(received.steps.back());
    REQUIRE(out.sends.size() == 1);
    REQUIRE(in.receives.size() == 1);
    CHECK(out.sends.front().peer == to);
    CHECK(in.receives.front().peer == from);
    CHECK(out.sends.front().region.count == 80);
    CHECK(in.receives.front().region.count == 80);
    const auto& sum = std::get<LocalSteps>(sent.steps.front());
    CHECK(sum.back().from.first == op.gradients.first);
  }
}

TEST_CASE("Steps with multi-token prediction take longer in every schedule, and are whole again without it", "[mtp]") {
  Experiment e = predicting(2, 2);
  e.workload.batch = 4;
  e.model.layers = e.workload.layers = 4;
  Plan plan;
  plan.micro_batches = 4;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.pipeline_schedule = pipeline_schedule("interleaved");
  plan.virtual_stages = 2;
  plan.recompute =
      GENERATE(EnumSet<Recompute>{}, EnumSet{Recompute::Full}, EnumSet{Recompute::Norms, Recompute::MpGather});
  const Seconds with = time_of(e, plan);
  e.workload.mtp_layers = 0;
  CHECK(with > time_of(e, plan));
}

TEST_CASE("Multi-token prediction is refused where it is not built or has no ends", "[mtp]") {
  Experiment e = predicting();
  e.workload.mtp_layers = 2;
  CHECK_THROWS_WITH(validate(e), Contains("/workload/mtp_layers: 2, expected 0 to 1 (those of "));
  e = predicting();
  e.workload.extent = Extent::WholeLayers;
  CHECK_THROWS_WITH(validate(e), Contains("need the embedding and the output head (workload.extent model)"));
  e = predicting();
  e.model.moe_every = 2;
  e.model.dense_hidden = 16;
  CHECK_THROWS_WITH(validate(e), Contains("not built yet where some layers are dense"));
}

// Two ranks, 16 rows of which each has 8, M 8, so that each has 4 columns of the projection.
TEST_CASE("Each rank gets all columns of its own rows, and back the own columns of all rows", "[mtp]") {
  const Schedule s = build_step(predicting(2), {});
  for (const Op& op : s.ops) {
    const TensorId from = s.reads_of(op).empty() ? TensorId() : s.reads_of(op).front();
    if (op.kind != OpKind::MpAllGather || op.layer != 2) continue;
    const TensorId to = s.writes_of(op).front();
    const LoweredOp second = lower(s, op, 1);
    if (s.tensors[from].kind == TensorKind::MtpColumns) {
      REQUIRE(second.steps.size() == 2);
      CHECK(second.scratch == 2 * 64);  // both ranks' (16, 4)
      // Its rows begin at row 8 of each of these, that is at 8 x 4 = 32 and at 64 + 32 = 96.
      CHECK(std::get<LocalSteps>(second.steps.back()) ==
            LocalSteps{{LocalKind::Copy, {Region::scratch, 32, 4}, {to, 0, 4}, {8, 4, 8}},
                       {LocalKind::Copy, {Region::scratch, 96, 4}, {to, 4, 4}, {8, 4, 8}}});
    } else if (s.tensors[to].kind == TensorKind::MtpColumns) {
      REQUIRE(second.steps.size() == 2);
      CHECK(second.scratch == 2 * 64);  // both ranks' (8, 8)
      CHECK(std::get<LocalSteps>(second.steps.back()) ==
            LocalSteps{{LocalKind::Copy, {Region::scratch, 4, 4}, {to, 0, 4}, {16, 8, 4}}});
    }
  }
}

TEST_CASE("All that adds to the output head's gradient comes before the layers of multi-token prediction", "[mtp]") {
  const Schedule s = build_step(predicting(1, 1, 2), {});
  OpId last_head, first_decode;
  for (const OpId id : s.ops.ids()) {
    const Op& op = s.ops[id];
    if (op.phase != Phase::Backward) continue;
    if (op.kind == OpKind::OutputHead) last_head = id;
    if (op.kind == OpKind::Decode && !first_decode.exists()) first_decode = id;
  }
  REQUIRE(first_decode.exists());
  CHECK(last_head < first_decode);
}
