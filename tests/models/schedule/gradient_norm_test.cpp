// SPDX-License-Identifier: Apache-2.0
// The norm of all gradients in schedules: what each rank counts, who waits for whom.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/schedule/lowering.hpp"
#include "models/schedule/shards.hpp"
#include "models/schedule/step_builder.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// A sample as in whole_model_test.cpp: a rank has 2 (256 + 32 + 16 + 256) + 168 parameters without mp and pp.
Experiment clipped_model(const Parallelism& p) {
  Experiment e = round_numbers(2);
  e.model.vocabulary = 10;
  e.workload.extent = Extent::Model;
  e.parallelism = p;
  e.cluster.nodes = 2 * p.pp;
  return e;
}

std::vector<const Op*> ops_of_kind(const Schedule& s, OpKind kind) {
  std::vector<const Op*> ops;
  for (const Op& op : s.ops)
    if (op.kind == kind) ops.push_back(&op);
  return ops;
}

double counted(const Schedule& s) {
  double elements = 0;
  const int ranks = s.groups.stage_ranks();
  for (int rank = 0; rank < ranks * s.groups.pp; ++rank)
    for (const GradientShare& share : gradient_shares(s, s.class_of_rank(rank), rank % ranks))
      elements += static_cast<double>(share.elements.size()) / share.copies;
  return elements;
}

}  // namespace

TEST_CASE("Whole models clip gradients at a norm of 1 unless the workload says otherwise, and never forward only") {
  Experiment e = clipped_model({.dp = 2, .mp = 2, .ep = 2, .esp = 2});
  CHECK(e.workload.clip() == 1);
  const Schedule s = build_step(e, {});
  CHECK(ops_of_kind(s, OpKind::GradientNorm).size() == 1);
  CHECK(ops_of_kind(s, OpKind::GradientNormAllReduce).size() == 1);
  e.workload.phases = Phases::ForwardOnly;
  CHECK(ops_of_kind(build_step(e, {}), OpKind::GradientNorm).empty());
  e.workload.phases = Phases::Training;
  e.workload.clip_gradients = 0;
  CHECK(ops_of_kind(build_step(e, {}), OpKind::GradientNorm).empty());
  e.workload.clip_gradients = {};
  e.workload.extent = Extent::WholeLayers;
  CHECK(ops_of_kind(build_step(e, {}), OpKind::GradientNorm).empty());
  e.workload.clip_gradients = 2;
  CHECK(ops_of_kind(build_step(e, {}), OpKind::GradientNorm).size() == 1);
  e.workload.extent = Extent::Layers;
  CHECK_THROWS_AS(build_step(e, {}), InputError);  // routers' gradients are not summed
  e.workload.extent = Extent::Model;
  e.workload.clip_gradients = -1;
  CHECK_THROWS_AS(build_step(e, {}), InputError);
}

TEST_CASE("Every gradient counts once in the norm, however many ranks have it") {
  // All: attention 2 x 256, routers and norms 2 x (32 + 16) + 8, embedding and head 160, experts 2 x 4 x 256.
  const double all = 2 * 256 + 104 + 160 + 2 * 4 * 256;
  for (const Parallelism& p : {Parallelism{.dp = 4, .mp = 1, .ep = 2, .esp = 2},
                               {.dp = 2, .mp = 2, .ep = 2, .esp = 2},
                               {.dp = 2, .mp = 2, .ep = 1, .esp = 2, .edp = 2},
                               {.dp = 4, .mp = 1, .ep = 1, .esp = 1, .edp = 4},
                               {.dp = 2, .mp = 2, .ep = 2, .esp = 1, .pp = 2, .edp = 2}})
    for (const int zero : {0, 1}) {
      Plan plan;
      plan.zero = zero;
      CAPTURE(p.dp, p.mp, p.edp, p.pp, zero);
      Experiment e = clipped_model(p);
      CHECK(counted(build_step(e, plan)) == Approx(all));
      e.model.tied_embeddings = true;  // of 80, on one stage or on two
      CHECK(counted(build_step(e, plan)) == Approx(all - 80));
    }
}

TEST_CASE("The norm's work: the gradients that a rank updates are read once, and one number is summed") {
  Experiment e = clipped_model({.dp = 4, .mp = 1, .ep = 2, .esp = 2});
  Plan plan;
  const Schedule s = build_step(e, plan);
  const double elements = 2 * (256 + 32 + 16 + 256) + 168;
  CHECK(ops_of_kind(s, OpKind::GradientNorm).front()->memory_traffic() == Bytes(4 * elements));
  CHECK(ops_of_kind(s, OpKind::GradientNormAllReduce).front()->message() == Bytes(4));
  CHECK(group_size(s.groups, GroupKind::World) == 4);
  plan.zero = 1;  // of the dense part a quarter; experts have no replicas
  const Schedule shards = build_step(e, plan);
  CHECK(ops_of_kind(shards, OpKind::GradientNorm).front()->memory_traffic() ==
        Bytes(4 * ((2 * 256 + 104 + 160) / 4. + 2 * 256)));
}

TEST_CASE("The updates of all pipeline stages wait for the norms of all of them") {
  Experiment e = clipped_model({.dp = 2, .mp = 2, .ep = 2, .esp = 2, .pp = 2});
  e.workload.batch = 2;
  Plan plan;
  plan.micro_batches = 2;
  const PricedSchedule priced = price_plan(e, plan);
  const Schedule& s = *priced.schedule;
  validate(s);
  const Timeline timeline = AnalyticBackend().run(priced);
  Seconds norms, updates(1e300);
  for (const OpId i : s.ops.ids()) {
    if (s.ops[i].kind == OpKind::GradientNorm) norms = std::max(norms, timeline.ops[i].finish);
    if (s.ops[i].kind == OpKind::Update) updates = std::min(updates, timeline.ops[i].start);
  }
  // The first stage ends its backward pass last. Between its norm and the updates is one all-reduce.
  const Op& reduce = *ops_of_kind(s, OpKind::GradientNormAllReduce).front();
  CHECK(updates.value() ==
        Approx((norms + priced.duration[OpId(static_cast<std::int32_t>(&reduce - &s.ops[OpId(0)]))]).value()));
  CHECK(s.reads_of(reduce).size() == 2);
  CHECK(s.joins_stages(reduce));
  // A rank of the other stage gives its own part to this op, and gets the sum from another.
  const auto lowered = [&](int rank) { return std::get<NativeCollective>(lower(s, reduce, rank).steps.front()); };
  CHECK(lowered(1).from.tensor == s.reads_of(reduce)[0]);
  CHECK(lowered(1).to.tensor == s.writes_of(reduce)[0]);
  CHECK(lowered(5).from.tensor == s.reads_of(reduce)[1]);
  CHECK(lowered(5).to.count == 0);
}
