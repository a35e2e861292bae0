// SPDX-License-Identifier: Apache-2.0
// Prices on described networks: by hand, against bounds on every link, and folded against unfolded.
#include "models/price/network_pricing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/network/schedule_classes.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

PricedSchedule priced_on(const Experiment& e, const Plan& plan) {
  return price(std::make_shared<const Schedule>(split_by_class(e, build_schedule(e, plan))), e);
}

Seconds step_of(const Experiment& e, const Plan& plan) {
  std::vector<double> finish;
  return analytic_makespan(priced_on(e, plan), finish);
}

OpId first_op(const Schedule& s, OpKind kind, int rank_class = 0) {
  const auto is = [&](const Op& op) { return op.kind == kind && s.class_of(op) == rank_class; };
  const auto op = std::ranges::find_if(s.ops, is);
  REQUIRE(op != s.ops.end());
  return OpId(op - s.ops.begin());
}

// 2 nodes x 2 GPUs; device memory is no bottleneck.
Experiment small(double nic_bandwidth, int nics) {
  Experiment e = test::round_numbers();
  e.cluster.device.memory_bandwidth = BytesPerSecond(1e15);
  e.cluster.node_bandwidth = BytesPerSecond(1e12);
  e.cluster.nics_per_node = nics;
  e.cluster.nic_bandwidth = BytesPerSecond(nic_bandwidth);
  e.cluster.network = NetworkDescription{};
  return e;
}

// A network that fits the experiment's cluster.
void describe_network(test::Random& random, Cluster& c) {
  const auto one_of = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
  c.nics_per_node = random() % 2 == 0 ? 1 : c.gpus_per_node;
  c.nic_bandwidth = BytesPerSecond(one_of({1e6, 1e8, 1e10}));
  c.node_bandwidth = BytesPerSecond(one_of({1e7, 1e9, 1e11}));
  c.network = NetworkDescription{};
  if (c.node_link == NodeLink::NvLinkPairs) c.node_link = NodeLink::NvSwitch;
  if (c.nodes % 2 == 0) c.network->fabric = {{"leaf", c.nodes / 2, one_of({1, 2, 8})}};
  c.network->rails = !c.network->fabric.empty() && random() % 2 == 0;
}

// Bytes on each link of the explicit network for an exchange of the whole group.
std::map<int, double> counted(const Experiment& e, const Parallelism& groups, const Op& op, const Network& network) {
  std::map<int, double> bytes;
  std::vector<int> route;
  for (int rank = 0; rank < e.cluster.gpus(); ++rank) {
    const std::vector<int> members = group_members(groups, op.group(), rank);
    for (int peer : members) {
      if (peer == rank) continue;
      route.clear();
      network.route(rank, peer, route);
      for (int link : route) bytes[link] += op.message().value() / static_cast<double>(members.size());
    }
  }
  return bytes;
}

// The bytes that the cards of a node must let in, whatever the algorithm: for each group on the node, which spans N
// nodes, the (N - 1) / N of the buffer that is elsewhere; an all-reduce as reduce-scatter and all-gather. 0: unknown.
double into_node(const Experiment& e, const Parallelism& groups, const Op& op) {
  const Collective c = op.collective();
  const bool known = c == Collective::AllGather || c == Collective::ReduceScatter || c == Collective::AllReduce;
  if (!known) return 0;
  const int here = ranks_per_node(groups, op.group(), e.cluster), all = group_size(groups, op.group());
  if (here == 0 || here == all) return 0;
  const double nodes = static_cast<double>(all) / here, times = c == Collective::AllReduce ? 2 : 1;
  const double bytes = times * op.message().value() * (nodes - 1) / nodes * e.cluster.gpus_per_node / here;
  return bytes / (e.cluster.nics_per_node * e.cluster.nic_bandwidth.value());
}

// Over all classes of ranks: those that only send to their leader may be done before it.
Seconds longest_twin(const PricedSchedule& priced, OpId op) {
  const Schedule& schedule = *priced.schedule;
  Seconds longest;
  for (int c = 0; c < schedule.twins(); ++c)
    longest = std::max(longest, priced.duration[schedule.twin(schedule.first_twin(op), c)]);
  return longest;
}

}  // namespace

TEST_CASE("an exchange takes its calibrated time or what the narrowest link needs") {
  // C 4 rows x 4 experts x 8 elements x 4 B = 512 B a rank, half of them for the peer on the other node.
  const auto dispatch = [](const Experiment& e) {
    const PricedSchedule p = priced_on(e, Plan{});
    return p.duration[first_op(*p.schedule, OpKind::Dispatch)].value();
  };
  CHECK(dispatch(small(1e9, 2)) == Approx(1e-3 + 512e-9));      // 256 B at 1 GB/s would be less than 512 x 1 ns
  CHECK(dispatch(small(1e6, 2)) == Approx(1e-3 + 256e-6));      // 256 B at 1 MB/s
  CHECK(dispatch(small(1e6, 1)) == Approx(1e-3 + 2 * 256e-6));  // two GPUs at one card
  Experiment tree = small(1e6, 2);
  tree.cluster.network->fabric = {{"leaf", 1, 4}};
  CHECK(dispatch(tree) == Approx(1e-3 + 4 * 256e-6));  // 2 x 256 B over an uplink of 2 MB/s / 4
  Experiment slow = small(1e6, 2);
  slow.cluster.network->slow = {{{}, {3}, 1, 1, .5}};
  CHECK(dispatch(slow) == Approx(1e-3 + 256e-6));  // GPU 0 and its peer 2 know nothing of the card of GPU 3
}

TEST_CASE("a network wide enough changes nothing but what shares it") {
  Experiment e = small(1e15, 2);
  e.cluster.node_bandwidth = BytesPerSecond(1e15);
  Experiment plain = e;
  plain.cluster.network.reset();
  CHECK(step_of(e, Plan{}).value() == Approx(step_of(plain, Plan{}).value()).epsilon(1e-9));
}

TEST_CASE("no collective or step is faster than its calibration, nor any exchange than its links: random experiments") {
  test::Random random(7);
  int bound_by_links = 0, native = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Experiment e = test::random_experiment(random);
    describe_network(random, e.cluster);
    if (e.parallelism.pp > 1) continue;
    Plan plan = test::random_legal_plan(random, e);
    // Orders by costs would depend on the prices.
    if (plan.order == Order::ReadyFirst) plan.order = Order::Alternate;
    if (plan.delay_weight_gradient == DelayedWeights::Fill) plan.delay_weight_gradient = DelayedWeights::All;
    if (test::refusal(plan, e)) continue;
    CAPTURE(trial, test::describe(e, plan));
    Experiment plain = e;
    plain.cluster.network.reset();
    plain.cluster.nic_bandwidth =
        BytesPerSecond(1e15);  // its links say what the cards carry, so they bound nothing here
    const PricedSchedule folded = priced_on(e, plan), calibrated = priced_on(plain, plan);
    std::vector<double> finish;
    REQUIRE(analytic_makespan(folded, finish) >= analytic_makespan(calibrated, finish) * (1 - 1e-9));
    const Network network(e.cluster);
    for (const OpId i : folded.schedule->ops.ids()) {
      const Op& op = folded.schedule->ops[i];
      const OpId own(i / folded.schedule->twins());  // without classes
      const Seconds longest = longest_twin(folded, i);
      REQUIRE(longest >= calibrated.duration[own] * (1 - 1e-9));
      if (e.workload.message_sizes == MessageSizes::Routed) continue;  // bytes are counted as padded
      const double least = into_node(e, folded.schedule->groups, op);
      REQUIRE((folded.duration[i] - folded.fixed[i]).value() >= least * (1 - 1e-9));
      native += least > 0;
      if (op.collective() != Collective::AllToAll || !folded.schedule->steps_of(op).empty()) continue;
      double bound = 0;
      for (const auto& [link, bytes] : counted(e, folded.schedule->groups, op, network))
        bound = std::max(bound, bytes / network.links()[static_cast<std::size_t>(link)].bandwidth.value());
      const Seconds sending = longest - folded.fixed[i];
      REQUIRE(sending.value() >= bound * (1 - 1e-9));
      bound_by_links += sending > (calibrated.duration[own] - calibrated.fixed[own]) * 1.01;
    }
  }
  CHECK(bound_by_links > 20);
  CHECK(native > 20);
}

TEST_CASE("rings are no faster than their bytes over the narrowest link") {
  Experiment e = small(1e6, 2);  // mp 2 and esp 2 in the nodes, dp 2 between them
  const PricedSchedule p = priced_on(e, Plan{});
  for (const OpId i : p.schedule->ops.ids()) {
    const Op& op = p.schedule->ops[i];
    if (op.collective() != Collective::AllReduce) continue;
    // 2 ranks: each passes on 2 x 1/2 of the buffer, over its own card.
    CHECK((p.duration[i] - p.fixed[i]).value() == Approx(op.message().value() / 1e6));
  }
}

TEST_CASE("each rank a class of its own gives the times of the folded network") {
  test::Random random(11);
  int compared = 0;
  for (int trial = 0; trial < 40; ++trial) {
    Experiment e = test::random_experiment(random);
    describe_network(random, e.cluster);
    e.workload.gate = {};
    if (e.parallelism.pp > 1 || e.cluster.gpus() > 16) continue;
    Experiment apart = e;
    for (int gpu = 0; gpu < e.cluster.gpus(); ++gpu)  // speeds that differ by less than anyone sees
      apart.cluster.network->slow.push_back({{}, {gpu}, 1 - 1e-13 * gpu, 1, 1});
    const Plan plan;
    CAPTURE(trial, test::describe(e, plan));
    const PricedSchedule unfolded = priced_on(apart, plan);
    REQUIRE(static_cast<int>(unfolded.schedule->classes.size()) == e.cluster.gpus());
    CHECK_NOTHROW(validate(*unfolded.schedule));
    CHECK(step_of(apart, plan).value() == Approx(step_of(e, plan).value()).epsilon(1e-6));
    ++compared;
  }
  CHECK(compared > 5);
}

TEST_CASE("a slow GPU holds up those that wait for it") {
  Experiment e = small(1e9, 2);
  e.calibration.edit().gemms[0].beta = SecondsPerFlop(1e-9);  // so that kernels count
  Experiment slow = e;
  slow.cluster.network->slow = {{{}, {3}, .5, 1, 1}};
  const PricedSchedule p = priced_on(slow, Plan{}), full = priced_on(e, Plan{});
  CHECK(p.schedule->classes.size() == 4);  // 0, 1, 2 and 3 stand differently to GPU 3
  const OpId expert = first_op(*full.schedule, OpKind::Expert);
  const double fixed = full.fixed[expert].value(), busy = full.duration[expert].value() - fixed;
  CHECK(p.duration[first_op(*p.schedule, OpKind::Expert, 0)].value() == Approx(fixed + busy));
  CHECK(p.duration[first_op(*p.schedule, OpKind::Expert, 3)].value() == Approx(fixed + 2 * busy));
  CHECK(step_of(slow, Plan{}) > step_of(e, Plan{}));
}

TEST_CASE("routed messages: the owner of a hot expert receives and works more") {
  Experiment e = small(1e9, 2);
  e.workload.capacity_factor = 4;  // C = 4 x 2 x 8 / 4 = 16 rows, of which 8 tokens fill at most half
  e.workload.routing.kind = RoutingKind::Hot;
  e.workload.routing.hot_expert = 3;
  e.workload.routing.hot_share = .5;
  e.workload.message_sizes = MessageSizes::Routed;
  // 16 choices of a rank: 8 for expert 3; 8 for the others, as 3, 3, 2. Two experts have 32 rows: 3 + 3 rows of those
  // of member 0 are taken, and 2 + 8 rows of those of member 1.
  const PricedSchedule p = priced_on(e, Plan{});
  REQUIRE(p.schedule->classes.size() == 2);
  const auto dispatched = [&](int c) {
    const OpId i = first_op(*p.schedule, OpKind::Dispatch, c);
    return (p.duration[i] - p.fixed[i]).value();
  };
  const double padded = 16 * 4 * 8 * 4 * 1e-9;
  // Sent: (6 + 10) / 64. Received by member 1: 10 / 32 of both blocks.
  CHECK(dispatched(0) == Approx(padded * 16 / 64));
  CHECK(dispatched(1) == Approx(padded * 10 / 32));
  // A grouped kernel computes those that are taken of a member's 128 rows, and a batched one all.
  const auto worked = [](const PricedSchedule& priced, int c) {
    const OpId i = first_op(*priced.schedule, OpKind::Expert, c);
    return (priced.duration[i] - priced.fixed[i]).value();
  };
  e.cluster.device.memory_bandwidth = BytesPerSecond(1e20);
  Plan grouped;
  grouped.expert_kernel = ExpertKernel::Grouped;
  const PricedSchedule own = priced_on(e, grouped), batched = priced_on(e, Plan{});
  REQUIRE(own.schedule->classes.size() == 2);
  const double all = worked(batched, 0);
  CHECK(worked(batched, 1) == Approx(all));
  CHECK(worked(own, 0) == Approx(all * 6 / 32));
  CHECK(worked(own, 1) == Approx(all * 10 / 32));
  grouped.row_tile = 8;  // of 4 ranks: 12 and 12 rows are two tiles each; 8 and 32 rows are five in all
  const PricedSchedule tiled = priced_on(e, grouped);
  CHECK(worked(tiled, 0) == Approx(all * 32 / 128));
  CHECK(worked(tiled, 1) == Approx(all * 40 / 128));
}

TEST_CASE("what is not simulated with a described network is refused with the reason") {
  Experiment e = small(1e9, 2);
  e.workload.message_sizes = MessageSizes::Routed;
  CHECK_NOTHROW(validate(e));
  e.parallelism.pp = 2;
  e.cluster.nodes = 4;
  e.workload.layers = e.model.layers = 2;
  CHECK_THROWS_WITH(validate(e),
                    Catch::Contains("routed is not built yet with pipeline stages on a described network"));
  e.cluster.network.reset();
  CHECK_NOTHROW(validate(e));
  e = small(1e9, 2);
  e.workload.message_sizes = MessageSizes::Routed;
  Plan plan;
  plan.split = Split::Peers;
  CHECK_THROWS_AS(validate(plan, e), InputError);
}

TEST_CASE("shipped clusters with a network: simulated, and 100,000 GPUs fold to one class") {
  for (const char* name : {"dgx-h100-rails", "dgx-h100-2to1", "fsmoe-testbed-b-links", "ndv4-links", "gb200-nvl72-8"}) {
    CAPTURE(name);
    ExperimentRequest request;
    request.cluster = name;
    request.model = "mixtral-8x7b";
    FilesRead files;
    std::vector<std::string> notes;
    Experiment e = load_experiment(request, files, notes);
    e.workload.layers = 1;
    Experiment plain = e;
    plain.cluster.network.reset();
    CHECK(step_of(e, Plan{}) >= step_of(plain, Plan{}) * (1 - 1e-9));
    if (e.cluster.gpus_per_node == 72) continue;  // groups of 64 lie unevenly on its nodes
    e.cluster.nodes = 12'800;
    e.cluster.network->fabric.resize(std::min<std::size_t>(e.cluster.network->fabric.size(), 1));
    e.parallelism = default_parallelism(e.cluster, e.model);
    const Schedule schedule = build_schedule(e, Plan{});
    CHECK(fold(e, schedule).classes() == 1);
  }
}
