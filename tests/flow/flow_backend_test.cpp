// SPDX-License-Identifier: Apache-2.0
// Every message by itself: worked examples, and the analytic backend with the same flows as activities of their own.
#include "sim/flow_backend.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "models/base/errors.hpp"
#include "models/network/network.hpp"
#include "models/network/rank_flows.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/fair_sharing.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;

namespace {

Experiment described(int nodes, int gpus_per_node) {
  Experiment e = test::round_numbers();
  e.cluster.nodes = nodes;
  e.cluster.gpus_per_node = gpus_per_node;
  e.cluster.node_bandwidth = BytesPerSecond(8e3);
  e.cluster.nics_per_node = 1;
  e.cluster.nic_bandwidth = BytesPerSecond(1e3);
  e.cluster.network = NetworkDescription{};
  const int gpus = e.cluster.gpus();
  e.parallelism = {.dp = gpus, .mp = 1, .ep = gpus, .esp = 1, .pp = 1, .edp = 1};
  return e;
}

// Ops by hand, all of one class.
class Made {
 public:
  explicit Made(const Experiment& e) {
    s_.classes = {{e.cluster.gpus()}};
    s_.groups = e.parallelism;
  }

  OpId add(StreamId stream, std::vector<OpId> dependencies, Seconds fixed, Work work = {}, Seconds busy = {}) {
    if (static_cast<std::size_t>(stream) >= s_.streams.size()) s_.streams.resize(static_cast<std::size_t>(stream) + 1);
    Op op;
    op.stream = stream;
    op.work = work;
    op.dependencies.first = static_cast<std::int32_t>(s_.dependencies.size());
    s_.dependencies.insert(s_.dependencies.end(), dependencies.begin(), dependencies.end());
    op.dependencies.last = static_cast<std::int32_t>(s_.dependencies.size());
    if (op.exchange() != nullptr) add_operands(op);
    fixed_.push_back(fixed);
    duration_.push_back(fixed + busy);
    return s_.ops.add(op);
  }

  PricedSchedule priced() const {
    PricedSchedule p;
    p.schedule = std::make_shared<const Schedule>(s_);
    p.fixed = fixed_;
    p.duration = duration_;
    p.first_demand.assign(fixed_.size() + 1, 0);
    return p;
  }

  // Each flow as an activity of every op, on the links of its route: what the flow backend should find, where all ranks
  // do the same at the same time.
  PricedSchedule with_flows(const Experiment& e) const {
    const Network network(e.cluster);
    PricedSchedule p = priced();
    p.resources.resize(network.links().size() + s_.ops.size());
    p.physical = p.resources.size();
    p.first_demand = {0};
    p.first_activity = {0};
    for (const OpId i : s_.ops.ids()) {
      const auto finish = [&] {
        p.first_demand.push_back(static_cast<std::int32_t>(p.demands.size()));
        p.activities.push_back(ActivityId(p.activity_count() - 1));
      };
      const std::vector<RankFlow> flows = RankFlows(e, s_).of(s_.ops[i]);
      for (const RankFlow& flow : flows) {
        std::vector<int> route;
        network.route(flow.from, flow.to, route);
        for (int link : route)
          p.demands.push_back({link, flow.bytes / network.links()[static_cast<std::size_t>(link)].bandwidth, 1});
        finish();
      }
      if (flows.empty()) {
        p.demands.push_back({static_cast<int>(network.links().size() + i), duration_[i] - fixed_[i], 1});
        finish();
      }
      p.first_activity.push_back(static_cast<std::int32_t>(p.activities.size()));
    }
    p.contended = true;
    return p;
  }

 private:
  // A tensor of as many bytes as the message is read, and one is written.
  void add_operands(Op& op) {
    for (Span* operand : {&op.reads, &op.writes}) {
      Tensor t;
      t.dtype = DType::Fp8;
      t.elements = static_cast<std::int64_t>(op.message().value());
      operand->first = static_cast<std::int32_t>(s_.operands.size());
      s_.operands.push_back(static_cast<TensorId>(s_.tensors.size()));
      operand->last = operand->first + 1;
      s_.tensors.push_back(t);
    }
  }

  Schedule s_;
  IdVector<OpId, Seconds> fixed_, duration_;
};

Work collective(Collective what, double bytes, GroupKind group = GroupKind::Ep) {
  return ExchangeWork{what, group, Protocol::Simple, Bytes(bytes), {}, {}};
}

Timeline run(const Experiment& e, const PricedSchedule& priced, const std::string& platform = "") {
  sim::FlowBackend backend(platform);
  backend.prepare(e);
  return backend.run(priced);
}

Approx nearly(double expected) {
  return Approx(expected).epsilon(1e-9).margin(0);
}

}  // namespace

TEST_CASE("an all-to-all over network cards that GPUs share") {
  // 2 nodes x 2 GPUs: each rank sends 100 bytes to each of the two on the other node; a card of 1000 B/s carries 4 such
  // messages: .4 s. After 1 s of latency.
  const Experiment e = described(2, 2);
  Made made(e);
  made.add(StreamId(0), {}, Seconds(1), collective(Collective::AllToAll, 400));
  CHECK(run(e, made.priced()).ops[OpId(0)].finish.value() == nearly(1.4));
}

TEST_CASE("trees of native collectives") {
  const Experiment e = described(2, 2);
  Made made(e);
  // Trees over two nodes send each byte of the buffer out of a node once: 400 bytes on a card, .4 s. A ring would pass
  // on 2 x 3/4 x 400 = 600 bytes.
  const OpId reduced = made.add(StreamId(0), {}, Seconds(0), collective(Collective::AllReduce, 400, GroupKind::Dp));
  made.add(StreamId(1), {reduced}, Seconds(1), {}, Seconds(2));
  const Timeline timeline = run(e, made.priced());
  CHECK(timeline.ops[OpId(0)].finish.value() == nearly(.4));
  CHECK(timeline.ops[OpId(1)].finish.value() == nearly(3.4));
}

TEST_CASE("two exchanges on two streams share the links") {
  const Experiment e = described(2, 2);
  Made made(e);
  // The first alone until .2, half done; then halves: the second (.2 s alone) takes until .6, and so does the rest of
  // the first (.2 s alone).
  made.add(StreamId(0), {}, Seconds(0), collective(Collective::AllToAll, 400));
  made.add(StreamId(1), {}, Seconds(.2), collective(Collective::AllToAll, 200));
  const Timeline timeline = run(e, made.priced());
  CHECK(timeline.ops[OpId(0)].finish.value() == nearly(.6));
  CHECK(timeline.ops[OpId(1)].finish.value() == nearly(.6));
}

TEST_CASE("random exchanges side by side: as fair sharing of the same flows predicts") {
  double worst = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint32_t>(n)); };
    Experiment e = described(1 << (1 + below(3)), 1 << below(3));
    const int gpus = e.cluster.gpus();
    if (gpus >= 8 && below(2) == 0) e.cluster.network->fabric = {{"leaf", 2, 1.0 + below(4)}};
    e.cluster.nics_per_node = below(2) == 0 ? 1 : e.cluster.gpus_per_node;
    const int ep = gpus / (1 << below(2));
    e.parallelism.ep = ep;
    e.parallelism.edp = gpus / ep;
    Made made(e);
    for (int i = 0; i < 6; ++i) {
      std::vector<OpId> dependencies;
      if (i > 1 && below(2) == 0) dependencies.push_back(OpId(below(i - 1)));
      const Collective what = below(3) == 0 ? Collective::None : Collective::AllToAll;
      const Seconds fixed(.001 * below(100));
      made.add(StreamId(below(3)), dependencies, fixed, collective(what, gpus * (1 + below(500))),
               what == Collective::None ? Seconds(.01 * below(100)) : Seconds(0));
    }
    INFO("seed " << seed << ", " << gpus << " GPUs");
    const Timeline flows = run(e, made.priced()), fair = AnalyticBackend().run(made.with_flows(e));
    for (const OpId i : flows.ops.ids()) {
      CHECK(flows.ops[i].finish.value() == Approx(fair.ops[i].finish.value()).epsilon(1e-9).margin(1e-12));
      if (fair.ops[i].finish > Seconds(0))
        worst = std::max(worst, std::abs(flows.ops[i].finish / fair.ops[i].finish - 1));
    }
  }
  INFO("largest difference " << worst);
  CHECK(worst < 1e-9);
}

TEST_CASE("a SimGrid platform file in place of the network") {
  const test::TemporaryFolder folder;
  const std::string path = "./star.xml";
  // 2 hosts and a link of 100 B/s that both directions share. Each sends 50 bytes to the other: 1 s.
  folder.write(path, R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Full">
    <host id="b" speed="5Gf"/>
    <host id="a" speed="1Gf"/>
    <link id="wire" bandwidth="100Bps" latency="0s"/>
    <route src="b" dst="a"><link_ctn id="wire"/></route>
  </zone>
</platform>
)");
  Experiment e = described(2, 1);
  Made made(e);
  made.add(StreamId(0), {}, Seconds(.5), collective(Collective::AllToAll, 100));
  made.add(StreamId(1), {}, Seconds(.25), {}, Seconds(.5));
  const Timeline timeline = run(e, made.priced(), path);
  CHECK(timeline.ops[OpId(0)].finish.value() == nearly(1.5));
  CHECK(timeline.ops[OpId(1)].finish.value() == nearly(.75));  // a modelled time, whatever the host's speed
  e = described(2, 2);
  CHECK_THROWS_WITH(run(e, Made(e).priced(), path), Catch::Contains("2 hosts, expected 4"));
  folder.write(path, "<?xml version='1.0'?>\n<platform>");
  CHECK_THROWS_WITH(run(e, Made(e).priced(), path), Catch::StartsWith("./star.xml:2:1: "));
}

TEST_CASE("what SimGrid dies of in a platform is one line, and hosts are ranks as the file has them") {
  const test::TemporaryFolder folder;
  const auto platform = [&](const std::string& routes) {
    folder.write("p.xml", R"(<platform version="4.1"><zone id="all" routing="Full">
    <host id="h9" speed="1Gf"/><host id="h10" speed="1Gf"/>
    <link id="slow" bandwidth="100Bps"/><link id="fast" bandwidth="200Bps"/>)" +
                              routes + "</zone></platform>");
  };
  const auto over = [](const char* from, const char* to, const char* link) {
    return fmt::format(R"(<route src="{}" dst="{}" symmetrical="NO"><link_ctn id="{}"/></route>)", from, to, link);
  };
  const Experiment e = described(2, 1);
  Made made(e);
  made.add(StreamId(0), {}, Seconds(0), collective(Collective::Broadcast, 100));  // from rank 0, which is h9
  platform(over("h9", "h10", "slow") + over("h10", "h9", "fast"));
  CHECK(run(e, made.priced(), "p.xml").ops[OpId(0)].finish.value() == nearly(1));
  platform(over("h10", "h9", "fast"));  // no way from rank 0
  CHECK_THROWS_AS(run(e, made.priced(), "p.xml"), InputError);
  CHECK_THROWS_WITH(run(e, made.priced(), "p.xml"), Catch::StartsWith("p.xml:1:1: SimGrid cannot use this platform"));
}

TEST_CASE("what the reference does not simulate is refused") {
  Experiment e = described(2, 2);
  Made made(e);
  PricedSchedule priced = made.priced();
  priced.resources = {"r"};
  priced.speed_changes = {{0, Seconds(1), .5}};
  CHECK_THROWS_WITH(run(e, priced), Catch::Contains("events"));
  CHECK_THROWS_WITH(run(described(257, 4), made.priced()), Catch::Contains("1028 GPUs, expected at most 1024"));
  e.cluster.network.reset();
  CHECK_THROWS_WITH(run(e, made.priced()), Catch::Contains("no \"network\""));
}
