// SPDX-License-Identifier: Apache-2.0
// Scores at the experts (plan.scores_at): what is sent, what is kept and what is read, by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "models/schedule/op_table.hpp"
#include "models/schedule/schedule.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// One sample of 16 tokens on each of 2 ranks, M 8; 4 gated experts, 2 on each rank: with top 2 and f 1 each takes 8
// rows of each rank, so that 2 x 2 x 8 = 32 rows go out and as many come back; fp32.
Experiment two_ranks(Extent extent) {
  Experiment e = round_numbers(1);
  e.model.expert_kind = ExpertKind::Gated;
  e.model.vocabulary = 10;
  e.workload.extent = extent;
  e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 1, .edp = 1};
  e.cluster.nodes = 1;
  e.cluster.gpus_per_node = 2;
  return e;
}

Schedule step_of(const Experiment& e, ScoresAt scores_at, int degree = 1) {
  Plan plan;
  plan.scores_at = scores_at;
  plan.forward_degree = plan.backward_degree = degree;
  if (degree > 1) plan.scope = Scope::Moe;
  Schedule s = build_step(e, plan);
  validate(s);
  return s;
}

double messages(const Schedule& s, OpKind kind, Phase phase) {
  double sum = 0;
  for (const Op& op : s.ops)
    if (op.kind == kind && op.phase == phase) sum += op.message().value();
  return sum;
}

double traffic(const Schedule& s, OpKind kind, Phase phase) {
  double sum = 0;
  for (const Op& op : s.ops)
    if (op.kind == kind && op.phase == phase) sum += op.memory_traffic().value();
  return sum;
}

// Bytes of a kind that the forward pass leaves for the backward pass.
double kept(const Schedule& s, TensorKind kind) {
  std::set<TensorId> made;
  double bytes = 0;
  for (const Op& op : s.ops) {
    if (op.pass() == Phase::Forward) made.insert(s.writes_of(op).begin(), s.writes_of(op).end());
    if (op.pass() != Phase::Backward) continue;
    for (TensorId t : s.reads_of(op))
      if (s.tensors[t].kind == kind && made.erase(t) > 0) bytes += s.tensors[t].bytes().value();
  }
  return bytes;
}

constexpr double rows = 32, row_bytes = 8 * 4, number = 4;

}  // namespace

TEST_CASE("Scores go out with the rows, and their gradients come back, 4 bytes a row", "[scores]") {
  const int degree = GENERATE(1, 2, 4);
  const Schedule s = step_of(two_ranks(GENERATE(Extent::Layers, Extent::WholeLayers)), ScoresAt::Experts, degree);
  for (Phase phase : {Phase::Forward, Phase::Backward}) {
    CHECK(messages(s, OpKind::Dispatch, phase) == rows * row_bytes);
    CHECK(messages(s, OpKind::Combine, phase) == rows * row_bytes);
    CHECK(messages(s, OpKind::DispatchScores, phase) == rows * number);
    CHECK(std::ranges::count_if(
              s.ops, [&](const Op& op) { return op.kind == OpKind::DispatchScores && op.phase == phase; }) == degree);
  }
  CHECK(messages(step_of(two_ranks(Extent::Layers), ScoresAt::Decode), OpKind::DispatchScores, Phase::Forward) == 0);
}

TEST_CASE("Scores are gathered with the rows over the shards of an expert, and their gradients are summed",
          "[scores]") {
  // Four ranks: ep 2 as before, and two shards of each expert. A rank has the 32 rows of both ranks of its experts'
  // shards, 64 in all, and as many scores; each shard has a part of the sum that a score's gradient is.
  Experiment e = two_ranks(Extent::WholeLayers);
  e.parallelism = {.dp = 4, .mp = 1, .ep = 2, .esp = 2, .pp = 1, .edp = 1};
  e.cluster.gpus_per_node = 4;
  const Schedule s = step_of(e, ScoresAt::Experts), decode = step_of(e, ScoresAt::Decode);
  CHECK(messages(s, OpKind::GatherScores, Phase::Forward) * 8 == messages(s, OpKind::EspAllGather, Phase::Forward));
  CHECK(messages(s, OpKind::GatherScores, Phase::Backward) * 8 == messages(s, OpKind::EspAllGather, Phase::Backward));
  CHECK(messages(s, OpKind::DispatchScores, Phase::Forward) == rows * number);
  // Memory beside that of decode: scores of all rows in place of the rows that came back.
  CHECK(kept(s, TensorKind::GatheredScores) == 2 * rows * number);
  CHECK(kept(s, TensorKind::Combined) == 0);
  CHECK(kept(decode, TensorKind::GatheredScores) == 0);
  CHECK(kept(decode, TensorKind::Combined) == rows * row_bytes);
}

TEST_CASE("Rows that come back are not kept where experts apply the scores", "[scores]") {
  const Experiment e = two_ranks(Extent::WholeLayers);
  const Schedule decode = step_of(e, ScoresAt::Decode), experts = step_of(e, ScoresAt::Experts);
  CHECK(kept(decode, TensorKind::Combined) == rows * row_bytes);
  CHECK(kept(experts, TensorKind::Combined) == 0);
  CHECK(kept(experts, TensorKind::DispatchedScores) == rows * number);
  for (TensorKind kind : {TensorKind::Dispatched, TensorKind::Hidden, TensorKind::Activated, TensorKind::Routing})
    CHECK(kept(experts, kind) == kept(decode, kind));
  // Decode reads them once less in the backward pass, where it would multiply them by the gradient.
  CHECK(traffic(decode, OpKind::Decode, Phase::Backward) ==
        traffic(experts, OpKind::Decode, Phase::Backward) + rows * row_bytes);
  CHECK(traffic(decode, OpKind::Decode, Phase::Forward) == traffic(experts, OpKind::Decode, Phase::Forward));
}

TEST_CASE("Scores are fp32 whatever the rows are", "[scores]") {
  Experiment e = two_ranks(Extent::Layers);
  e.workload.dtype = DType::Bf16;
  const Schedule s = step_of(e, ScoresAt::Experts);
  CHECK(messages(s, OpKind::Dispatch, Phase::Forward) == rows * row_bytes / 2);
  CHECK(messages(s, OpKind::DispatchScores, Phase::Forward) == rows * number);
}
