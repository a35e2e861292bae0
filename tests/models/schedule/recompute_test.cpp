// SPDX-License-Identifier: Apache-2.0
// Recomputation (plan.recompute): what it frees, what it adds, and when it runs; by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/schedule/op_table.hpp"
#include "models/schedule/schedule.hpp"
#include "models/schedule/step_builder.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::test;
using Catch::Matchers::Contains;

namespace {

using Parts = EnumSet<Recompute>;

// One sample of 16 tokens on each of 4 ranks, M 8, 2 heads of 4; 4 gated experts (8 x 16, three matrices) with ep 2 and
// esp 2: 8 rows of each expert from each rank, 64 rows and 8 columns here; fp32.
Experiment gated(int layers = 2, Extent extent = Extent::WholeLayers) {
  Experiment e = round_numbers(layers);
  e.model.expert_kind = ExpertKind::Gated;
  e.model.vocabulary = 10;
  e.workload.extent = extent;
  e.parallelism = {4, 1, 2, 2, 1, 1};
  e.cluster.nodes = 2;
  return e;
}

Plan recomputing(Parts parts) {
  Plan plan;
  plan.recompute = parts;
  return plan;
}

Schedule step_of(const Experiment& e, Parts parts) {
  Schedule s = build_step(e, recomputing(parts));
  validate(s);
  return s;
}

// Bytes that the forward pass of a layer leaves for the backward pass, by kind.
std::map<TensorKind, double> kept(const Schedule& s, int layer) {
  std::set<TensorId> made;
  std::map<TensorKind, double> bytes;
  for (const Op& op : s.ops) {
    if (op.pass() == Phase::Forward) made.insert(s.writes_of(op).begin(), s.writes_of(op).end());
    if (op.pass() != Phase::Backward) continue;
    for (TensorId t : s.reads_of(op))
      if (made.erase(t) > 0 && s.tensors[t].layer == layer) bytes[s.tensors[t].kind] += s.tensors[t].bytes().value();
  }
  return bytes;
}

double kept_bytes(const Schedule& s, int layer) {
  double sum = 0;
  for (const auto& [kind, bytes] : kept(s, layer)) sum += bytes;
  return sum;
}

struct Added {
  double flops = 0, traffic = 0, messages = 0;
  std::set<OpKind> kinds;
};
Added added(const Schedule& s, int layer) {
  Added sum;
  for (const Op& op : s.ops) {
    if (!op.recomputed || op.layer != layer) continue;
    sum.flops += op.flops().value();
    sum.traffic += op.memory_traffic().value();
    sum.messages += op.message().value();
    sum.kinds.insert(op.kind);
  }
  return sum;
}

double traffic_of(const Schedule& s, OpKind kind, Phase phase) {
  return std::ranges::find_if(s.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; })
      ->memory_traffic()
      .value();
}

// Dense layers, shared experts, latent attention or ranks that gather tokens.
bool needs_another_model(Recompute part) {
  return part == Recompute::DenseFfn || part == Recompute::SharedExperts || part == Recompute::UpProjections ||
         part == Recompute::MpGather;
}

const double row_of_tokens = 16 * 8 * 4;         // (T, M)
const double experts_kept = 16 * 2 * 3 * 4 +     // routing: token, place and score of both choices
                            2 * 2 * 8 * 8 * 4 +  // combined
                            64 * 8 * 4 +         // expert_input
                            64 * 2 * 8 * 4 +     // hidden: x W1 and x W3
                            64 * 8 * 4;          // activated

}  // namespace

TEST_CASE("What each part frees of what a layer keeps, by hand", "[recompute]") {
  const Experiment e = gated();
  const double all = 5 * row_of_tokens +     // layer_input, normed_input, moe_input, normed_moe_input, context
                     16 * (8 + 2 * 8) * 4 +  // query_key_value
                     16 * 2 * 4 +            // log_sum_exp
                     experts_kept;
  const auto left = [&](Parts parts) { return kept_bytes(step_of(e, parts), 1); };
  CHECK(left({}) == all);
  CHECK(left({Recompute::Attention}) == all - row_of_tokens - 16 * 2 * 4);
  CHECK(left({Recompute::Norms}) == all - 2 * row_of_tokens);
  CHECK(left({Recompute::Activation}) == all - 64 * 8 * 4);
  CHECK(left({Recompute::Moe}) == all - experts_kept);
  CHECK(left({Recompute::Norms, Recompute::Moe}) == all - 2 * row_of_tokens - experts_kept);
  CHECK(left({Recompute::Full}) == row_of_tokens);
  CHECK(kept(step_of(e, {Recompute::Full}), 1).begin()->first == TensorKind::LayerInput);
}

TEST_CASE("What each part adds to the backward pass, by hand", "[recompute]") {
  const Experiment e = gated();
  const auto of = [&](Parts parts) { return added(step_of(e, parts), 1); };
  CHECK(of({}).kinds.empty());
  // The forward attention op without its products: 16 rows of 8 numbers to 24, and back to 8.
  const Schedule plain = step_of(e, {});
  const auto attention = std::ranges::find(plain.ops, OpKind::Attention, &Op::kind);
  const Added core = of({Recompute::Attention});
  CHECK(core.kinds == std::set{OpKind::Attention});
  CHECK(core.flops == attention->flops().value() - 2 * 16 * 8 * 24 - 2 * 16 * 8 * 8);
  CHECK(core.traffic == 0);
  // Two norms, each of which reads and writes (T, M).
  const Added norms = of({Recompute::Norms});
  CHECK(norms.kinds == std::set{OpKind::Norm});
  CHECK(norms.traffic == 2 * 2 * row_of_tokens);
  // The gate's product with (8, 4), and three of the experts: 64 rows, 8 by 8 numbers. Rows go out, are gathered, and
  // come back: an all-to-all of 2 x 2 x 8 rows, twice, and both of twice as many.
  const Added moe = of({Recompute::Moe});
  CHECK(moe.kinds == std::set{OpKind::Gate, OpKind::Encode, OpKind::Dispatch, OpKind::EspAllGather, OpKind::Expert,
                              OpKind::EspReduceScatter, OpKind::Combine});
  CHECK(moe.flops == 2 * 16 * 8 * 4 + 3 * 2 * 64 * 8 * 8);
  CHECK(moe.messages == (2 + 2 * 2) * 2 * 2 * 8 * 8 * 4);
}

TEST_CASE("Up-projections of latent attention run again from its low ranks, by hand", "[recompute]") {
  Experiment e = gated();
  const int q_rank = GENERATE(5, 0);
  e.model.attention = {.heads = 2,
                       .kv_heads = 2,
                       .head_size = 6,
                       .kind = AttentionKind::Latent,
                       .q_rank = q_rank,
                       .kv_rank = 3,
                       .nope_size = 4,
                       .rope_size = 2,
                       .value_size = 4};
  const Schedule plain = step_of(e, {}), again = step_of(e, {Recompute::UpProjections});
  CHECK(kept_bytes(again, 1) == kept_bytes(plain, 1) - 16 * (2 * 6 + 2 * 6 + 2 * 4) * 4);  // queries, keys, values
  CHECK(kept(again, 1).contains(TensorKind::LowRanks));
  // Queries are made from their low rank or, without one, from the layer's input; keys and values from theirs.
  const Added up = added(again, 1);
  CHECK(up.kinds == std::set{OpKind::Projection});
  CHECK(up.flops == 2 * 16 * ((q_rank > 0 ? q_rank : 8) * 2 * 6 + 3 * 2 * (4 + 4)));
  CHECK(up.traffic == 2 * 16 * (2 + 1) * 2 * 4);  // rotary positions: of both heads' queries, and of one key
  // The heads' sums run after them, where both are dropped.
  const Schedule both = step_of(e, {Recompute::UpProjections, Recompute::Attention});
  CHECK(added(both, 1).kinds == std::set{OpKind::Projection, OpKind::Attention});
}

TEST_CASE("Tokens of the mp ranks are gathered again from the own ones, by hand", "[recompute]") {
  Experiment e = gated(2, Extent::Model);
  e.parallelism = {2, 2, 2, 2, 1, 1};  // 16 tokens of two ranks, 8 of them here
  e.model.shared_experts = {2, 6, false};
  const Schedule plain = step_of(e, {}), again = step_of(e, {Recompute::MpGather});
  // Attention and shared experts read 16 rows of 8; the normed 8 of the rank are kept for one, as they are for the
  // gate's backward pass already for the other.
  CHECK(kept_bytes(again, 1) == kept_bytes(plain, 1) - 2 * 16 * 8 * 4 + 8 * 8 * 4);
  const Added gathers = added(again, 1);
  CHECK(gathers.kinds == std::set{OpKind::MpAllGather});
  CHECK(gathers.messages == 2 * 16 * 8 * 4);
  CHECK(added(again, 2).messages == 16 * 8 * 4);  // the output head's
  CHECK(kept_bytes(again, 2) == kept_bytes(plain, 2) - 16 * 8 * 4 + 8 * 8 * 4);
  // Without the norm of the own ones too, both run again.
  CHECK(added(step_of(e, {Recompute::MpGather, Recompute::Norms}), 1).kinds ==
        std::set{OpKind::Norm, OpKind::MpAllGather});
  e.parallelism = {4, 1, 2, 2, 1, 1};
  CHECK_THROWS_WITH(step_of(e, {Recompute::MpGather}), Contains("needs mp ranks that gather tokens"));
}

TEST_CASE("Activated rows that were not kept are written once more by the backward pass", "[recompute]") {
  const Experiment e = gated();
  const Schedule plain = step_of(e, {}), without = step_of(e, {Recompute::Activation});
  CHECK(added(without, 1).kinds.empty());
  CHECK(traffic_of(without, OpKind::Expert, Phase::Backward) ==
        traffic_of(plain, OpKind::Expert, Phase::Backward) + 64 * 8 * 4);
  CHECK(traffic_of(without, OpKind::Expert, Phase::Forward) == traffic_of(plain, OpKind::Expert, Phase::Forward));
  // The papers' steps never keep them, and MPipeMoE's strategies neither.
  CHECK_FALSE(kept(build_step(gated(2, Extent::Layers), {}), 1).contains(TensorKind::Activated));
  Plan sent_again;
  sent_again.restore = Restore::S4;
  CHECK_FALSE(kept(build_step(e, sent_again), 1).contains(TensorKind::Activated));
}

TEST_CASE("Dense layers and shared experts run again from their input", "[recompute]") {
  Experiment e = gated();
  e.model.first_dense = 1;  // layer 0 is dense
  e.model.dense_hidden = 12;
  e.model.shared_experts = {2, 6, false};
  const Schedule plain = step_of(e, {});
  const double freed = 16 * 3 * 12 * 4;      // x W1, x W3 and the activated rows
  const double flops = 3 * 2 * 16 * 8 * 12;  // three products
  const Schedule dense = step_of(e, {Recompute::DenseFfn}), shared = step_of(e, {Recompute::SharedExperts});
  CHECK(kept_bytes(dense, 0) == kept_bytes(plain, 0) - freed);
  CHECK(added(dense, 0).flops == flops);
  CHECK(kept_bytes(dense, 1) == kept_bytes(plain, 1));
  CHECK(kept_bytes(shared, 1) == kept_bytes(plain, 1) - freed);
  CHECK(added(shared, 1).flops == flops);
  CHECK(kept_bytes(shared, 0) == kept_bytes(plain, 0));
  // Megatron-LM's moe takes the shared experts with it.
  const Schedule moe = step_of(e, {Recompute::Moe});
  CHECK(kept_bytes(moe, 1) == kept_bytes(plain, 1) - freed - experts_kept);
  CHECK(kept_bytes(moe, 0) == kept_bytes(plain, 0));
}

TEST_CASE("Full recomputation does the forward work of every layer twice", "[recompute]") {
  Experiment e = gated(3, GENERATE(Extent::Layers, Extent::WholeLayers, Extent::Model));
  if (GENERATE(false, true)) {
    e.model.first_dense = 1;
    e.model.dense_hidden = 12;
    e.model.shared_experts = {2, 6, false};
    e.parallelism = {2, 2, 2, 2, 1, 1};
  }
  Plan plan = recomputing({Recompute::Full});
  if (GENERATE(false, true)) {
    plan.scope = Scope::Moe;
    plan.forward_degree = 2;
    plan.backward_degree = 4;
  }
  const Schedule s = build_step(e, plan);
  validate(s);
  using OpFigures = std::tuple<OpKind, int, int, double, double, double>;
  std::multiset<OpFigures> once, again;
  for (const Op& op : s.ops)
    if (op.phase == Phase::Forward && entry_of(op.kind).part != OpPart::Ends && op.layer < 3)
      (op.recomputed ? again : once)
          .insert({op.kind, op.layer, op.chunk, op.flops().value(), op.memory_traffic().value(), op.message().value()});
  if (e.workload.extent == Extent::Model && e.parallelism.mp > 1) {  // that of the embedding
    const auto embedding = std::ranges::find_if(
        once, [](const OpFigures& w) { return std::get<0>(w) == OpKind::MpReduceScatter && std::get<1>(w) == 0; });
    once.erase(embedding);
  }
  CHECK(once == again);
  for (int layer = 1; layer < 3; ++layer) CHECK(kept(s, layer).size() == 1);
}

TEST_CASE("Nothing runs again before the gradient of its layer has come", "[recompute]") {
  const Experiment e = gated(3);
  for (const auto& [name, part] : recompute_names) {
    if (needs_another_model(part)) continue;
    INFO(name);
    const auto schedule = std::make_shared<const Schedule>(step_of(e, {part}));
    const Timeline timeline = AnalyticBackend().run(price(schedule, e));
    std::map<int, Seconds> ends;  // of each layer's backward pass
    for (const OpId i : schedule->ops.ids())
      if (schedule->ops[i].pass() == Phase::Backward && entry_of(schedule->ops[i].kind).part != OpPart::StepEnd)
        ends[schedule->ops[i].layer] = std::max(ends[schedule->ops[i].layer], timeline.ops[i].finish);
    for (const OpId i : schedule->ops.ids())
      if (const Op& op = schedule->ops[i]; op.recomputed && op.layer < 2)
        CHECK(timeline.ops[i].start >= ends.at(op.layer + 1));
  }
}

TEST_CASE("Peak memory never grows, and falls where the layers are many", "[recompute]") {
  const int layers = GENERATE(1, 2, 6);
  Experiment e = gated(layers, GENERATE(Extent::WholeLayers, Extent::Model));
  const auto peak = [&](Parts parts) {
    const auto schedule = std::make_shared<const Schedule>(step_of(e, parts));
    return memory_use(*schedule, AnalyticBackend().run(price(schedule, e))).peak;
  };
  const Bytes plain = peak({});
  for (const auto& [name, part] : recompute_names) {
    if (needs_another_model(part)) continue;
    INFO(name << ", " << layers << " layers");
    CHECK(peak({part}) <= plain);
    if (layers > 1 && part != Recompute::Norms) CHECK(peak({part}) < plain);
  }
  // All but the layers' inputs, and one layer's tensors, which are there for its backward pass.
  if (layers == 6) CHECK(plain - peak({Recompute::Full}) >= Bytes(4 * (4 * row_of_tokens + experts_kept)));
}

TEST_CASE("Parts that a step lacks, or that go another way, are refused by name", "[recompute]") {
  const auto refused = [](const Experiment& e, const Plan& plan, const std::string& why) {
    CHECK_THROWS_WITH(build_step(e, plan), Contains("/plan/recompute: ") && Contains(why));
  };
  const Experiment e = gated();
  refused(e, recomputing({Recompute::Full, Recompute::Norms}), "full alone");
  refused(gated(2, Extent::Layers), recomputing({Recompute::Norms}), "norms contradicts workload.extent layers");
  refused(gated(2, Extent::Layers), recomputing({Recompute::Activation}), "activation contradicts workload.extent");
  refused(e, recomputing({Recompute::DenseFfn}), "dense_ffn needs dense layers");
  refused(e, recomputing({Recompute::SharedExperts}), "shared_experts needs shared experts");
  Experiment ungated = e;
  ungated.model.expert_kind = ExpertKind::Ffn;
  refused(ungated, recomputing({Recompute::Activation}), "activation needs gated experts");
  for (const Recompute part : {Recompute::Full, Recompute::Moe, Recompute::Activation}) {
    Plan plan = recomputing({part});
    plan.restore = Restore::S4;
    refused(e, plan, "contradicts plan.restore s4");
  }
}
