// SPDX-License-Identifier: Apache-2.0
// Exchanges that send a token to a node once: bytes, times and memory by hand.
#include "models/network/token_copies.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/network/rank_flows.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/network_pricing.hpp"
#include "models/price/overlap.hpp"
#include "models/price/step_cost.hpp"
#include "models/question/capacity.hpp"
#include "models/question/drawn_choices.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

// 4 ranks on 2 nodes, an expert on each, 8 tokens of 8 fp32 numbers on each. Every token chooses every expert, so that
// all is known: it goes to both nodes, and to all ranks.
Experiment all_experts() {
  Experiment e = test::round_numbers();
  e.parallelism = Parallelism{.dp = 4, .ep = 4};
  e.workload.sequence = 8;
  e.workload.top_k = 4;
  e.workload.capacity_factor = 0;
  e.workload.routing.kind = RoutingKind::Uniform;
  e.workload.message_sizes = MessageSizes::Routed;
  resolve_capacity(e);
  return e;
}

Plan deduplicated() {
  Plan plan;
  plan.all_to_all = AllToAll::NodeDeduplicated;
  plan.scores_at = ScoresAt::Experts;
  plan.expert_kernel = ExpertKernel::Grouped;
  return plan;
}

void describe_network(Cluster& cluster) {
  cluster.network = NetworkDescription{};
  cluster.node_link = NodeLink::NvSwitch;
  cluster.nics_per_node = 2;
  cluster.node_bandwidth = cluster.nic_bandwidth = BytesPerSecond(1e9);
}

const Op& first_of(const Schedule& s, OpKind kind, Phase phase) {
  return *std::ranges::find_if(s.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; });
}

constexpr double row = 8 * 4, number = 4;
constexpr double there = 8 * (row + 5 * number), back = 8 * (row + number);  // all tokens of a rank: with 1 + 4 numbers

}  // namespace

TEST_CASE("A token goes to a node once, and on to each of its ranks") {
  const Experiment e = all_experts();
  REQUIRE(layer_volumes(e).tokens == 8);
  const Schedule s = build_schedule(e, deduplicated());
  const TokenCopies copies(e, s, layer_volumes(e).capacity);
  const Op& dispatch = first_of(s, OpKind::Dispatch, Phase::Forward);
  CHECK(copies.bytes(dispatch, 0, 2).value() == there + number);  // to the rank of the same place
  CHECK(copies.bytes(dispatch, 1, 3).value() == there + number);
  CHECK(copies.bytes(dispatch, 2, 3).value() == 2 * (there + number));  // tokens of ranks 0 and 2
  const Op& d_dispatch = first_of(s, OpKind::Dispatch, Phase::Backward);
  CHECK(copies.bytes(d_dispatch, 2, 0).value() == back + number);
  CHECK(copies.bytes(d_dispatch, 3, 2).value() == 2 * (back + number));
  const TokenCopies::Load load = copies.load(first_of(s, OpKind::Combine, Phase::Backward), 1);
  CHECK(load.network.value() == there + number);
  CHECK(load.inside.value() == 2 * (there + number));
  CHECK(load.rows.value() == 4 * 8 * row);
  CHECK(copies.to_nodes(dispatch, 0) == .5);  // two rows of four choices
}

TEST_CASE("Flows of such an exchange: two for each rank") {
  const Experiment e = all_experts();
  const Schedule s = build_schedule(e, deduplicated());
  const RankFlows flows(e, s);
  double sent = 0;
  for (const RankFlow& flow : flows.of(first_of(s, OpKind::Dispatch, Phase::Forward))) sent += flow.bytes.value();
  CHECK(flows.of(first_of(s, OpKind::Dispatch, Phase::Forward)).size() == 4 * 2);
  CHECK(sent == 4 * (there + number) + 4 * 2 * (there + number));
  // Scores go by themselves: each rank has 8 for each of three others.
  sent = 0;
  for (const RankFlow& flow : flows.of(first_of(s, OpKind::DispatchScores, Phase::Forward))) sent += flow.bytes.value();
  CHECK(sent == 4 * 3 * 8 * number);
}

TEST_CASE("Rows go to the experts in another format, and come back as sums in their own") {
  const Experiment e = all_experts();
  Plan plan = deduplicated();
  plan.dispatch_wire = Wire::Fp8;
  const Schedule s = build_schedule(e, plan);
  const TokenCopies copies(e, s, layer_volumes(e).capacity);
  constexpr double small = 8 * (8 + 4 + 5 * number);  // 8 bytes and a scale
  CHECK(copies.bytes(first_of(s, OpKind::Dispatch, Phase::Forward), 0, 2).value() == small + number);
  CHECK(copies.load(first_of(s, OpKind::Dispatch, Phase::Forward), 0).rows.value() == 4 * 8 * (8 + 4));
  CHECK(copies.bytes(first_of(s, OpKind::Dispatch, Phase::Backward), 2, 0).value() == back + number);
  CHECK(copies.bytes(first_of(s, OpKind::Combine, Phase::Backward), 0, 2).value() == there + number);
}

TEST_CASE("Such an exchange takes the longer of what it does between nodes and inside") {
  const Experiment e = all_experts();  // 1 ms and 1 ns a byte, of which a rank's own part counts too
  const PricedSchedule p = price_plan(e, deduplicated());
  const auto duration = [&](OpKind kind, Phase phase) {
    for (const OpId i : p.schedule->ops.ids())
      if (p.schedule->ops[i].kind == kind && p.schedule->ops[i].phase == phase) return p.duration[i].value();
    return 0.0;
  };
  const double inside = 2 * 2 * (there + number), inside_back = 2 * 2 * (back + number);
  CHECK(duration(OpKind::Dispatch, Phase::Forward) == Approx(1e-3 + 1e-9 * inside));
  CHECK(duration(OpKind::Combine, Phase::Backward) == Approx(1e-3 + 1e-9 * inside));
  CHECK(duration(OpKind::Combine, Phase::Forward) == Approx(1e-3 + 1e-9 * inside_back));
  CHECK(duration(OpKind::Dispatch, Phase::Backward) == Approx(1e-3 + 1e-9 * inside_back));
}

TEST_CASE("Measured kernels give the time inside a node, by the multiprocessors they run on") {
  Experiment e = all_experts();
  e.cluster.nodes = 1;
  e.cluster.gpus_per_node = 4;
  e.cluster.device.multiprocessors = 100;
  // 10 us, 1 GB/s a multiprocessor and as good as no end of bandwidth; a row of 8 numbers is 32 of one byte.
  const auto add_table = [&](KernelKind kind, DType dtype) {
    const std::vector<double> law{10, 1, 50000, .001};
    const KernelShape large = exchange_shape(kind, 1000, 4000, 1000, 100);  // as the law says; none is faster
    e.calibration.edit().tables.emplace_back(
        kind, dtype, law, std::vector<MeasuredKernel>{{large, law_of(kind).seconds(large, law, size_of(dtype))}});
  };
  add_table(KernelKind::Dispatch, DType::Fp8);
  Plan plan = deduplicated();
  plan.comm_sms = 10;
  CHECK_THROWS_WITH(build_schedule(e, plan), Catch::Contains("needs the times of combine by multiprocessors"));
  add_table(KernelKind::Combine, DType::Bf16);
  const auto dispatch_time = [&](int multiprocessors) {
    plan.comm_sms = multiprocessors;
    const PricedSchedule p = price_plan(e, plan);
    for (const OpId i : p.schedule->ops.ids())
      if (p.schedule->ops[i].kind == OpKind::Dispatch) return p.duration[i].value();
    return 0.0;
  };
  const double bytes = 4 * 8 * row;  // of copies, for all ranks
  for (int multiprocessors : {5, 10, 20})
    CHECK(dispatch_time(multiprocessors) == Approx(10e-6 + bytes / (1e9 * multiprocessors)).epsilon(1e-3));
  CHECK(dispatch_time(0) == dispatch_time(20));

  const auto compute_speed = [&](int multiprocessors) {
    for (const Interference& pair : interference_of(e, AllToAll::NodeDeduplicated, multiprocessors))
      if (pair.a == InterferenceClass::Compute && pair.b == InterferenceClass::Intra) return pair.a_speed;
    return 1.0;
  };
  CHECK(compute_speed(0) == 1);
  CHECK(compute_speed(20) == Approx(.8));  // 80 of 100
}

TEST_CASE("Multiprocessors for communication are refused where they mean nothing") {
  Experiment e = all_experts();
  Plan plan = deduplicated();
  plan.comm_sms = 10;
  CHECK_THROWS_WITH(build_schedule(e, plan), Catch::Contains("needs to know how many multiprocessors"));
  e.cluster.device.multiprocessors = 10;
  CHECK_THROWS_WITH(build_schedule(e, plan), Catch::Contains("10 of 10 multiprocessors leave none"));
  plan.all_to_all = AllToAll::Linear;
  CHECK_THROWS_WITH(validate(plan, e), Catch::Contains("comm_sms: contradicts plan.all_to_all linear"));
}

TEST_CASE("Encoding and decoding take as long as their rows, one for each token and node") {
  const Experiment e = all_experts();
  Plan linear = deduplicated();
  linear.all_to_all = AllToAll::Linear;
  const Schedule once = build_schedule(e, deduplicated()), all = build_schedule(e, linear);
  const RoutedRows rows_once(e, once), rows_all(e, all);
  const auto traffic = [](const RoutedRows& rows, const Schedule& s, OpKind kind, Phase phase) {
    return std::get<KernelWork>(rows.largest(first_of(s, kind, phase))).memory_traffic.value();
  };
  const double tokens = 8 * row;
  CHECK(traffic(rows_all, all, OpKind::Encode, Phase::Forward) == 2 * 4 * tokens);
  CHECK(traffic(rows_once, once, OpKind::Encode, Phase::Forward) == 2 * 2 * tokens);
  CHECK(traffic(rows_once, once, OpKind::Decode, Phase::Forward) == (2 + 2) * tokens);
  CHECK(traffic(rows_once, once, OpKind::Decode, Phase::Backward) == (2 + 3) * tokens);
  Plan small = deduplicated();
  small.dispatch_wire = Wire::Fp8;
  const Schedule compressed = build_schedule(e, small);
  const RoutedRows rows_small(e, compressed);
  const double row_of_both = row + 8 + 4;  // as it is, and as it is sent
  CHECK(traffic(rows_small, compressed, OpKind::Compress, Phase::Forward) == 2 * 8 * row_of_both);
  CHECK(traffic(rows_small, compressed, OpKind::Decompress, Phase::Forward) == 4 * 8 * row_of_both);
  const auto held = [](const Schedule& s, TensorKind kind) {
    return std::ranges::find(s.tensors, kind, &Tensor::kind)->bytes().value();
  };
  CHECK(held(once, TensorKind::Encoded) == 2 * tokens);
  CHECK(held(all, TensorKind::Encoded) == 4 * tokens);
  CHECK(held(once, TensorKind::Dispatched) == 4 * tokens);
  CHECK(held(once, TensorKind::EncodedScores) == 4 * 8 * number);
}

TEST_CASE("Chunks of rows are deduplicated each by itself") {
  const Experiment e = all_experts();
  Plan plan = deduplicated();
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  const Schedule s = build_schedule(e, plan);
  const TokenCopies copies(e, s, layer_volumes(e).capacity);
  // The 8 rows of each expert are cut in halves of 4, of tokens that differ by expert.
  double rows = 0;
  for (const Op& op : s.ops)
    if (op.kind == OpKind::Dispatch && op.phase == Phase::Forward) {
      const double bytes = copies.bytes(op, 0, 2).value() - number;
      rows += bytes / (row + 5 * number);
      CHECK(bytes >= 4 * (row + 5 * number));
    }
  CHECK(rows >= 8);
  CHECK(rows <= 2 * 8);
}

TEST_CASE("Described networks carry the copies, and no more") {
  Experiment e = all_experts();
  e.workload.routing.kind = GENERATE(RoutingKind::Uniform, RoutingKind::Zipf);
  e.workload.top_k = 2;
  e.workload.sequence = 64;
  resolve_capacity(e);
  describe_network(e.cluster);
  const Schedule s = build_schedule(e, deduplicated());
  NetworkLoad load(e, s, fold(e, s));
  const RankFlows flows(e, s);
  for (const auto& [kind, phase] : {std::pair{OpKind::Dispatch, Phase::Forward}, {OpKind::Combine, Phase::Forward}}) {
    const Op& op = first_of(s, kind, phase);
    double between = 0, up = 0;
    for (const RankFlow& flow : flows.of(op))
      if (flow.from / e.cluster.gpus_per_node != flow.to / e.cluster.gpus_per_node) between += flow.bytes.value();
    for (const LinkAmount& link : load.volumes(op))
      if (load.network().links()[static_cast<std::size_t>(link.link)].name == "nic up") up += link.amount;
    CHECK(up == Approx(between));
    CHECK(between > 0);
  }
}

TEST_CASE("A schedule for all ranks alike is priced by uniform copies, where a network tells them apart") {
  Experiment e = all_experts();
  e.workload.top_k = 2;
  e.workload.routing.kind = RoutingKind::Zipf;
  resolve_capacity(e);
  describe_network(e.cluster);
  const PricedSchedule folded = price_plan(e, deduplicated());
  e.workload.routing.kind = RoutingKind::Uniform;
  const PricedSchedule uniform = price_plan(e, deduplicated());
  REQUIRE(folded.schedule->ops.size() == uniform.schedule->ops.size());
  for (const OpId i : folded.schedule->ops.ids())
    if (folded.schedule->relays(folded.schedule->ops[i])) CHECK(folded.duration[i] == uniform.duration[i]);
}

TEST_CASE("Tokens of many go as often as the formula says") {
  Experiment e = all_experts();
  e.model.experts = 64;
  e.workload.top_k = 8;
  e.workload.sequence = 8192;
  resolve_capacity(e);
  const Schedule s = build_schedule(e, deduplicated());
  const TokenCopies copies(e, s, layer_volumes(e).capacity);
  CHECK(8 * copies.to_nodes({}, 0) == Approx(groups_of_a_token(2, 64, 8)).epsilon(.005));
  CHECK(copies.load(first_of(s, OpKind::Dispatch, Phase::Forward), 0).rows.value() / row ==
        Approx(layer_volumes(e).tokens * groups_of_a_token(4, 64, 8)).epsilon(.005));
}

TEST_CASE("What cannot be deduplicated is refused by name") {
  const auto refused = [](auto change) {
    Experiment e = all_experts();
    Plan plan = deduplicated();
    change(e, plan);
    try {
      validate(plan, e);
    } catch (const InputError& error) {
      return std::string(error.message());
    }
    return std::string();
  };
  const auto says = [&](const std::string& text, auto change) {
    INFO(refused(change));
    CHECK(refused(change).find(text) != std::string::npos);
  };
  says("needs workload.message_sizes routed", [](Experiment& e, Plan& p) {
    e.workload.message_sizes = MessageSizes::Padded;
    p.expert_kernel = ExpertKernel::Batched;
  });
  says("needs plan.scores_at experts", [](Experiment&, Plan& p) { p.scores_at = ScoresAt::Decode; });
  says("not built yet with plan.combine_wire bf16", [](Experiment&, Plan& p) { p.combine_wire = Wire::Bf16; });
  says("contradicts plan.protocol by_size", [](Experiment&, Plan& p) { p.protocol = Protocol::BySize; });
  says("given, but plan.all_to_all is node_deduplicated", [](Experiment&, Plan& p) { p.all_to_all_levels = {2, 2}; });
  says("fused contradicts plan.all_to_all node_deduplicated",
       [](Experiment&, Plan& p) { p.all_to_all_implementation = AllToAllImplementation::Fused; });
}
