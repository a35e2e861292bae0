// SPDX-License-Identifier: Apache-2.0
// Messages as large as what is chosen, and experts on their own rows, really executed: the numbers are those of the
// reference, and the bytes those that the routing model says.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "exec/host/host_executor.hpp"
#include "exec/host/host_kernels.hpp"
#include "exec/host/host_run.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/op_table.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Nothing is dropped; each layer and rank has loads of its own, of very different experts, one of them with no row.
Experiment dropless(SmallExperiment s) {
  s.capacity_factor = 0;
  Experiment e = small_experiment(s);
  e.workload.message_sizes = MessageSizes::Routed;
  RoutingModel& routing = e.workload.routing;
  routing.kind = RoutingKind::Trace;
  for (int layer = 0; layer < s.layers; ++layer) {
    LoadTable table;
    for (int rank = 0; rank < e.parallelism.stage_ranks(); ++rank) {
      std::vector<double> shares;
      for (int expert = 0; expert < s.experts; ++expert)
        shares.push_back(expert == layer ? 0 : 1 + (3 * expert + 5 * rank + layer) % 7);
      table.push_back(shares);
    }
    routing.layers.push_back(table);
  }
  resolve_capacity(e);
  return e;
}

Plan grouped_in_chunks(int forward_degree = 1, int backward_degree = 1) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  plan.expert_kernel = ExpertKernel::Grouped;
  return plan;
}

SmallExperiment sizes_of(int ep, int esp) {
  SmallExperiment s;
  s.dp = ep * esp;
  s.ep = ep;
  s.esp = esp;
  s.experts = 6;
  s.layers = 2;
  return s;
}

}  // namespace

TEST_CASE("Dropless experts compute what the reference does: ranks, shards, chunks, tiles", "[dropless]") {
  SmallExperiment s = sizes_of(GENERATE(1, 2, 3), GENERATE(1, 2));
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  Plan plan = grouped_in_chunks(GENERATE(1, 3), GENERATE(1, 2));
  plan.row_tile = GENERATE(0, 8);
  plan.scores_at = plan.row_tile == 0 ? ScoresAt::Experts : ScoresAt::Decode;
  check_numerics(dropless(s), plan);
}

TEST_CASE("Dropless experts beside other choices of a plan", "[dropless]") {
  SmallExperiment s = sizes_of(2, 2);
  s.kind = ExpertKind::Gated;
  s.edp = 2;
  s.dp = 8;
  Plan plan = grouped_in_chunks(2, 3);
  Extent extent = Extent::Layers;
  SECTION("batched, so that messages alone are routed") {
    plan.expert_kernel = ExpertKernel::Batched;
  }
  SECTION("on two streams, the readiest first") {
    plan.comm_streams = CommStreams::InterIntra;
    plan.order = Order::ReadyFirst;
  }
  SECTION("rows sent again, computed again or brought back") {
    plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  }
  SECTION("recomputed") {
    extent = Extent::WholeLayers;
    plan.recompute = {GENERATE(Recompute::Full, Recompute::Moe, Recompute::Activation)};
  }
  SECTION("rows in other formats") {
    plan.dispatch_wire = GENERATE(Wire::Bf16, Wire::Fp8);
    plan.combine_wire = Wire::Bf16;
  }
  SECTION("dense encoding") {
    plan.encoding = Encoding::Dense;
  }
  SECTION("whole layers, with a host that also waits elsewhere") {
    extent = Extent::WholeLayers;
    plan.host_sync = true;
  }
  Experiment e = dropless(s);
  e.workload.extent = extent;
  check_numerics(e, plan);
}

TEST_CASE("Dropless experts apply scores, and keep them for recomputation", "[dropless]") {
  SmallExperiment s = sizes_of(3, 1);
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  Experiment e = dropless(s);
  e.workload.extent = Extent::WholeLayers;
  Plan plan = grouped_in_chunks(2, 2);
  plan.scores_at = ScoresAt::Experts;
  plan.row_tile = 4;
  if (GENERATE(false, true)) plan.recompute = {Recompute::Moe};
  check_numerics(e, plan);
}

TEST_CASE("Dropless pipelines of micro-batches", "[dropless]") {
  SmallExperiment s = sizes_of(2, 1);
  s.batch = 4;
  s.layers = 4;
  Experiment e = small_experiment(s);
  e = dropless(s);
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 23;
  e.parallelism.pp = 2;
  e.cluster.nodes *= 2;
  resolve_capacity(e);
  Plan plan = grouped_in_chunks(2, 1);
  plan.micro_batches = 4;
  plan.pipeline_schedule =
      GENERATE(pipeline_schedule("1f1b"), pipeline_schedule("interleaved"), pipeline_schedule("zb_v"));
  if (plan.pipeline_schedule != pipeline_schedule("1f1b")) plan.virtual_stages = 2;
  check_numerics(e, plan);
}

TEST_CASE("Dropless experts where the router chooses, and some choices dropped", "[dropless]") {
  SmallExperiment s = sizes_of(3, 1);
  Experiment e = small_experiment(s);
  e.workload.message_sizes = MessageSizes::Routed;
  SECTION("none dropped") {
    e.workload.capacity_factor = 0;
    resolve_routed_capacity(e, 11);
    check_numerics(e, grouped_in_chunks(2, 2));
  }
  SECTION("some dropped") {
    e.workload.capacity_factor = .75;
    check_numerics(e, grouped_in_chunks(2, 2), true);
  }
}

TEST_CASE("Ranks send the bytes that the routing model says, op by op", "[dropless]") {
  const Experiment e = dropless(sizes_of(3, 2));
  Plan plan = grouped_in_chunks(2, 3);
  plan.restore = GENERATE(Restore::Keep, Restore::S4);
  const auto [schedule, sent] = execute(e, plan);
  std::map<OpKind, double> all;
  for (const OpId i : sent.ids()) {
    const Op& op = schedule->ops[i];
    if (op.exchange() == nullptr) continue;
    INFO(to_string(op));
    CHECK(sent[i].sent == Approx(simulated_bytes(e, *schedule, op)).epsilon(1e-12));
    CHECK(sent[i].padded >= sent[i].sent);
    all[op.kind] += sent[i].sent;
    if (entry_of(op.kind).exchanges_rows && op.rows.last == layer_volumes(e).capacity)
      CHECK(sent[i].padded > 1.5 * sent[i].sent);
  }
  for (OpKind kind : {OpKind::Dispatch, OpKind::Combine, OpKind::EspAllGather, OpKind::EspReduceScatter})
    CHECK(all[kind] > 0);
  // 6 ranks of groups of 3 send each other 2 counts for each of 2 layers; shards give each other 6 counts.
  CHECK(all[OpKind::ExchangeCounts] == 2 * (6 * 2 * 2 + 6 * 6) * 4);
}

TEST_CASE("Dispatched bytes by hand", "[dropless]") {
  SmallExperiment s;
  s.dp = s.ep = 2;
  s.capacity_factor = 0;
  Experiment e = small_experiment(s);
  e.workload.message_sizes = MessageSizes::Routed;
  e.workload.routing.kind = RoutingKind::Hot;
  e.workload.routing.hot_expert = 3;
  e.workload.routing.hot_share = .5;
  resolve_capacity(e);
  // 16 tokens choose 32 times: 16 expert 3, and 6, 5 and 5 the others. Rank 0, which has experts 0 and 1, sends 21 rows
  // of 8 fp32 numbers to rank 1 and gets 11 rows.
  const auto [schedule, sent] = execute(e, grouped_in_chunks());
  for (const OpId i : sent.ids())
    if (schedule->ops[i].kind == OpKind::Dispatch) {
      CHECK(sent[i].sent == (21 + 11) * 8 * 4);
      CHECK(sent[i].padded == 2 * 2 * 16 * 8 * 4);
    }
}

TEST_CASE("A grouped kernel touches no row but the expert's own", "[dropless]") {
  // Two experts; two blocks of each have room for 3 rows, of which 2 and 0, and 1 and 3 are taken.
  LayerShape shape;
  shape.hidden = 4;
  shape.shard = 3;
  shape.local_experts = shape.experts = 2;
  shape.row_copies = 2;
  shape.gated = GENERATE(false, true);
  const OwnRows own{{2, 1, 0, 3}, GENERATE(1, 4)};
  const RowRange rows{0, 3};
  constexpr std::size_t all = 12;
  const auto width = static_cast<std::size_t>(shape.hidden_row());
  test::Values weights = random_values(static_cast<std::size_t>(2 * shape.expert_parameters()), 1),
               input = random_values(all * 4, 2), d_output = random_values(all * 4, 3);
  const auto taken = [&](std::size_t row) { return static_cast<std::int64_t>(row % 3) < own.counts[row / 3]; };
  const auto with = [&](test::Values values, double value) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!taken(i / 4)) values[i] = value;
    return values;
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  struct Run {
    test::Values hidden, output, d_weights, d_input, d_hidden;
  };
  const auto run = [&](const test::Values& x, const test::Values& d_y, bool grouped) {
    Run r{test::Values(all * width), test::Values(all * 4), test::Values(weights.size()), test::Values(all * 4),
          test::Values(all * width)};
    const ExpertGradients<double> gradients{r.d_weights.data(), r.d_input.data(), r.d_hidden.data()};
    if (grouped)
      grouped_forward<double>(shape, own, {rows, x.data()}, weights.data(), r.hidden.data(), r.output.data());
    else
      expert_forward<double>(shape, {rows, x.data()}, weights.data(), r.hidden.data(), r.output.data());
    const KeptChunk<double> kept{{rows, x.data()}, r.hidden.data()};
    if (grouped)
      grouped_backward<double>(shape, own, {rows, d_y.data()}, weights.data(), {&kept, 1}, gradients);
    else
      expert_backward<double>(shape, {rows, d_y.data()}, weights.data(), {&kept, 1}, gradients);
    return r;
  };
  const Run grouped = run(with(input, nan), with(d_output, nan), true),
            batched = run(with(input, 0), with(d_output, 0), false);
  const auto same = [](const test::Values& a, const test::Values& b) {
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-13));
  };
  same(grouped.output, batched.output);
  same(grouped.hidden, batched.hidden);
  same(grouped.d_weights, batched.d_weights);
  same(grouped.d_input, batched.d_input);
  same(grouped.d_hidden, batched.d_hidden);
}
