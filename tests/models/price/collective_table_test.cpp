// SPDX-License-Identifier: Apache-2.0
// Collectives inside a node that were measured by their sizes, and latencies that grow with the group.
#include <catch2/catch.hpp>
#include <functional>

#include "models/base/errors.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/hardware.hpp"
#include "models/price/kernel_fit.hpp"
#include "models/price/kernel_price.hpp"
#include "models/price/step_cost.hpp"

using namespace dovetail;

namespace {

constexpr double micro = 1e-6;
const std::vector<double> collective_law{5, 1, 200};  // us, us for each further rank, GB/s

// 2, 4 and 8 ranks and 1 KiB to 256 MiB; `times` of what the law says.
std::vector<MeasuredKernel> measured_collectives_of(KernelKind kind, double (*times)(const KernelShape&)) {
  std::vector<MeasuredKernel> points;
  for (const std::int64_t ranks : {2, 4, 8})
    for (std::int64_t bytes = 1 << 10; bytes <= 1 << 28; bytes *= 2) {
      const KernelShape shape = collective_shape(kind, ranks, bytes);
      points.push_back({shape, times(shape) * law_of(kind).seconds(shape, collective_law, Bytes(1))});
    }
  return points;
}

double as_the_law(const KernelShape&) {
  return 1;
}

KernelTable collective_table(KernelKind kind, double (*times)(const KernelShape&) = as_the_law) {
  return {kind, DType::Fp16, collective_law, measured_collectives_of(kind, times)};
}

CollectiveCost flat_cost(Collective collective, LinkKind link) {
  return {collective, link, 0, Seconds(4e-5), SecondsPerByte(1e-10), {Origin::Measured, "a test"}, 0, {}};
}

Calibration by_sizes() {
  Calibration c;
  c.name = "test";
  for (const auto& [name, kind] : collective_kernels) c.tables.push_back(collective_table(kind));
  c.collectives = {flat_cost(Collective::AllToAll, LinkKind::Intra), flat_cost(Collective::AllToAll, LinkKind::Inter),
                   flat_cost(Collective::AllGather, LinkKind::Inter)};
  return c;
}

GroupPlace group_on(int nodes, int members) {
  return {{nodes * members, nodes}, members, 8, BytesPerSecond(0)};
}

double total_us(const Calibration& c, Collective collective, const GroupPlace& where, double bytes) {
  const ResourceTime time = find_cost(c, collective, where).of(Bytes(bytes));
  return (time.fixed + time.busy).value() / micro;
}

}  // namespace

TEST_CASE("ranks send to others all but their own part") {
  CHECK(amount(collective_shape(KernelKind::AllToAll, 8, 800)) == Approx(700));
  CHECK(amount(collective_shape(KernelKind::AllGather, 2, 800)) == Approx(400));
  CHECK(amount(collective_shape(KernelKind::AllReduce, 4, 800)) == Approx(2 * 600));
  CHECK(amount(exchange_shape(KernelKind::Dispatch, 10, 50, 7, 24)) == 50 * 7);
}

TEST_CASE("a collective inside a node takes what its ranks and bytes were measured to take") {
  const Calibration c = by_sizes();
  // 1 MiB among 8: 5 + 7 x 1 us and 7/8 MiB at 200 GB/s.
  CHECK(total_us(c, Collective::AllToAll, group_on(1, 8), 1 << 20) == Approx(12 + .875 * (1 << 20) / 200e3));
  CHECK(total_us(c, Collective::AllToAll, group_on(1, 2), 1 << 20) == Approx(6 + .5 * (1 << 20) / 200e3));
  CHECK(total_us(c, Collective::AllReduce, group_on(1, 4), 1 << 20) == Approx(8 + 1.5 * (1 << 20) / 200e3));
  // 2 of 8 GPUs of a node: their own number counts, not that of the node. The launch is what chunks do not share.
  CHECK(find_cost(c, Collective::AllToAll, group_on(1, 2)).of(Bytes(1 << 20)).fixed.value() == Approx(5 * micro));
  // A broadcast is like an all-gather of the buffer; a message of 1 MiB like 2 MiB among two, half of which stays.
  CHECK(total_us(c, Collective::Broadcast, group_on(1, 8), 1 << 20) ==
        Approx(total_us(c, Collective::AllGather, group_on(1, 8), 1 << 20)));
  CHECK(total_us(c, Collective::Send, group_on(1, 4), 1 << 20) == Approx(6 + (1 << 20) / 200e3));
  CHECK(find_cost(c, Collective::Broadcast, group_on(1, 8)).provenance.origin == Origin::Assumed);
  // Between nodes the entries count.
  CHECK(find_cost(c, Collective::AllGather, group_on(2, 8)).by_size == nullptr);
  CHECK(total_us(c, Collective::AllGather, group_on(2, 8), 1 << 20) == Approx(40 + 1e-4 * (1 << 20)));
}

TEST_CASE("an entry of a collective itself goes before the table of one that is like it") {
  Calibration c = by_sizes();
  c.collectives.push_back(flat_cost(Collective::Broadcast, LinkKind::Intra));
  CHECK(total_us(c, Collective::Broadcast, group_on(1, 8), 1 << 20) == Approx(40 + 1e-4 * (1 << 20)));
}

TEST_CASE("an exchange of several runs takes each run's time") {
  const Calibration c = by_sizes();
  ExchangeWork work;
  work.message = Bytes(1 << 20);
  const CollectiveStep step = exchange_step({1, 8}, 1, 4);
  const StepCost cost = step_cost(c, {&step, 1}, work, group_on(4, 8));
  const auto runs = static_cast<double>(step.outer);
  const ResourceTime run = find_cost(c, Collective::AllToAll, group_on(1, 8)).of(work.message / runs);
  const ResourceTime& inside = cost[static_cast<std::size_t>(InterferenceClass::Intra)];
  CHECK(inside.fixed.value() == Approx(runs * run.fixed.value()));
  CHECK(inside.busy.value() == Approx(runs * run.busy.value()));
}

TEST_CASE("no collective undercuts the least costs, whatever its size") {
  Calibration c = by_sizes();
  c.gemms = {{DType::Bf16, Seconds(1e-5), SecondsPerFlop(1e-15), {}}};
  c.tables[0] = collective_table(KernelKind::AllToAll,
                                 [](const KernelShape& shape) { return shape.size[1] == 1 << 20 ? .3 : 2.0; });
  const Calibration least = least_costs(c, DType::Bf16);
  CHECK(least.tables.empty());
  for (const int ranks : {2, 3, 8, 64})
    for (const Collective each : {Collective::AllToAll, Collective::AllReduce, Collective::Send})
      for (double bytes = 1; bytes < 1e12; bytes *= 3) {
        INFO(name_in(collective_names, each) << " " << ranks << " " << bytes);
        CHECK(total_us(least, each, group_on(1, ranks), bytes) <=
              total_us(c, each, group_on(1, ranks), bytes) * (1 + 1e-9));
      }
}

TEST_CASE("tables of collectives follow the links of the node alone") {
  Calibration c = by_sizes();
  c.memory = {Seconds(1e-6), SecondsPerByte(1e-12), {Origin::Measured, "a test"}};
  c.hardware = Hardware{
      {{DType::Bf16, FlopsPerSecond(1e15)}}, BytesPerSecond(3e12), BytesPerSecond(450e9), BytesPerSecond(50e9)};
  Cluster cluster;
  cluster.device.peak = {{DType::Bf16, FlopsPerSecond(2e15)}};
  cluster.device.memory_bandwidth = BytesPerSecond(6e12);
  cluster.node_bandwidth = BytesPerSecond(450e9);
  cluster.nic_bandwidth = BytesPerSecond(50e9);
  cluster.nics_per_node = cluster.gpus_per_node = 8;
  const double before = total_us(c, Collective::AllToAll, group_on(1, 8), 1 << 28);
  Calibration same = c, faster = c, set = c;
  adapt(same, cluster, c);
  CHECK(total_us(same, Collective::AllToAll, group_on(1, 8), 1 << 28) == Approx(before));
  cluster.node_bandwidth = BytesPerSecond(900e9);
  adapt(faster, cluster, c);
  CHECK(total_us(faster, Collective::AllToAll, group_on(1, 8), 1 << 28) == Approx((before - 12) / 2 + 12));
  CHECK(faster.tables[0].provenance.origin == Origin::Assumed);
  for (CollectiveCost& cost : set.collectives) cost.beta = 2 * cost.beta;
  adapt(set, cluster, c);  // the user's entries count
  CHECK(total_us(set, Collective::AllToAll, group_on(1, 8), 1 << 20) == Approx(40 + 2e-4 * (1 << 20)));
  CHECK(set.adapted.size() >= 1);
}

TEST_CASE("an alpha that was set leaves its rate, and all others, to the hardware") {
  Calibration c = by_sizes();
  c.memory = {Seconds(1e-6), SecondsPerByte(1e-12), {Origin::Measured, "a test"}};
  c.collectives.push_back(c.collectives.front());
  c.collectives.back().link = LinkKind::Inter;
  c.hardware = Hardware{{}, BytesPerSecond(3e12), BytesPerSecond(450e9), BytesPerSecond(50e9)};
  Cluster cluster;
  cluster.device.memory_bandwidth = BytesPerSecond(6e12);
  cluster.node_bandwidth = BytesPerSecond(900e9);
  cluster.nic_bandwidth = BytesPerSecond(100e9);
  cluster.nics_per_node = cluster.gpus_per_node = 8;
  const auto rates = [&](const std::function<void(Calibration&)>& edit) {
    Calibration set = c;
    edit(set);
    adapt(set, cluster, c);
    return std::pair(set.collectives.back().beta / c.collectives.back().beta, set.memory.beta / c.memory.beta);
  };
  CHECK(rates([](Calibration&) {}) == std::pair(.5, .5));
  CHECK(rates([](Calibration& set) { set.collectives.back().alpha = set.memory.alpha = Seconds(1e-3); }) ==
        std::pair(.5, .5));
  CHECK(rates([](Calibration& set) { set.collectives.back().beta = 3 * set.collectives.back().beta; }) ==
        std::pair(3., .5));
}

TEST_CASE("half of the sizes of a collective predict the others, and a disturbed one disturbs no other") {
  constexpr auto disturbed = [](const KernelShape& shape) { return shape.size[1] == 1 << 12 ? 3.0 : 1.0; };
  std::vector<MeasuredKernel> points = measured_collectives_of(KernelKind::AllToAll, disturbed);
  const KernelTable half = fit_table(DType::Fp16, points, points.size() / 2);
  CHECK(half.points().size() == points.size() / 2);
  CHECK(half.error.rows == points.size() - points.size() / 2);
  const KernelTable all = fit_table(DType::Fp16, points, points.size());
  for (const MeasuredKernel& point : all.points())  // 8 KiB took a third of what 4 KiB took
    if (point.shape.size[1] == 1 << 12)
      CHECK(point.time < 1.1 * all.seconds(collective_shape(KernelKind::AllToAll, point.shape.size[0], 1 << 13)));
  const auto steady = [](const KernelShape&) { return 1.0; };
  points = measured_collectives_of(KernelKind::AllToAll, steady);
  CHECK(fit_table(DType::Fp16, points, points.size() / 2).error.mean < .02);
}

TEST_CASE("latencies grow with the messages that wait for each other") {
  Calibration c = by_sizes();
  const auto alpha_us = [&](Hops hops, Collective collective, int nodes, int members) {
    for (CollectiveCost& cost : c.collectives) cost.latency = Latency{hops, Seconds(1 * micro), Seconds(10 * micro)};
    return find_cost(c, collective, group_on(nodes, members)).alpha.value() / micro - 40;
  };
  // 4 nodes with 8 ranks each: 28 of 31 messages of a ring stay on the node.
  CHECK(alpha_us(Hops::Ring, Collective::AllGather, 4, 8) == Approx(28 * 1 + 3 * 10));
  CHECK(alpha_us(Hops::Tree, Collective::AllGather, 4, 8) == Approx(7 * 1 + 2 * 10));
  CHECK(alpha_us(Hops::Direct, Collective::AllToAll, 4, 8) == Approx(7 * 1 + 24 * 10));
  CHECK(alpha_us(Hops::Direct, Collective::AllToAll, 2, 1) == Approx(10));
  CHECK(alpha_us(Hops::Ring, Collective::Send, 4, 8) == Approx(10));  // one message, to the next stage
}
