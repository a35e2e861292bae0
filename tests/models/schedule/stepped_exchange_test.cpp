// SPDX-License-Identifier: Apache-2.0
// Schedules whose all-to-alls are done in steps.
#include <catch2/catch.hpp>
#include <map>

#include "models/base/names.hpp"
#include "models/plan/collectives/all_to_all.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

// 4 ranks share 4 experts: 2 on each of 2 nodes. C = 4 rows, so a rank sends 4 * 4 * 8 = 128 elements, 512 bytes.
Experiment two_by_two() {
  Experiment e = test::round_numbers();
  e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  return e;
}

Plan stepped(AllToAll algorithm, AllToAllImplementation implementation = AllToAllImplementation::PointToPoint) {
  Plan p;
  p.scope = Scope::Moe;
  p.all_to_all = algorithm;
  p.all_to_all_implementation = implementation;
  p.comm_streams = CommStreams::InterIntra;
  return p;
}

std::string exchanges(const Schedule& s, StreamKind kind) {
  std::string text;
  for (const Op& op : s.ops)
    if ((op.kind == OpKind::Dispatch || op.kind == OpKind::Combine) && op.phase == Phase::Forward &&
        s.streams[op.stream].kind == kind)
      text += to_string(op) + " ";
  return text;
}

struct Sum {
  double flops = 0, traffic = 0, message = 0;
  int gemms = 0;
};

// By op kind and phase.
std::map<std::pair<OpKind, Phase>, Sum> work_of(const Schedule& s) {
  std::map<std::pair<OpKind, Phase>, Sum> sums;
  for (const Op& op : s.ops) {
    Sum& sum = sums[{op.kind, op.phase}];
    sum.flops += op.flops().value();
    sum.traffic += op.memory_traffic().value();
    sum.message += op.message().value();
    if (op.kernel() != nullptr) sum.gemms += op.kernel()->gemms;
  }
  return sums;
}

}  // namespace

TEST_CASE("steps inside the node go on intra, those between nodes on inter, copies before the step they are for") {
  Plan p = stepped(AllToAll::TwoDimensional);
  p.forward_degree = 2;
  const Schedule s = build_schedule(two_by_two(), p);
  validate(s);
  CHECK(exchanges(s, StreamKind::Intra) ==
        "dispatch[0].0/0 dispatch[0].0/1 dispatch[0].1/0 dispatch[0].1/1 "
        "combine[0].0/0 combine[0].0/1 combine[0].1/0 combine[0].1/1 ");
  CHECK(exchanges(s, StreamKind::Inter) ==
        "dispatch[0].0/2 dispatch[0].0/3 dispatch[0].1/2 dispatch[0].1/3 "
        "combine[0].0/2 combine[0].0/3 combine[0].1/2 combine[0].1/3 ");
  p.comm_streams = CommStreams::One;
  CHECK(exchanges(build_schedule(two_by_two(), p), StreamKind::Communication)
            .starts_with("dispatch[0].0/0 dispatch[0].0/1 dispatch[0].0/2 dispatch[0].0/3 dispatch[0].1/0 "));
}

TEST_CASE("an all-to-all in steps does the work of a linear one, its copies and its exchanges") {
  const double buffer = 512;
  for (const auto implementation : {AllToAllImplementation::PointToPoint, AllToAllImplementation::Fused})
    for (const AllToAllAlgorithm& algorithm : all_to_all_algorithms) {
      if (algorithm.name == AllToAll::Linear) continue;
      Plan p = stepped(algorithm.name, implementation);
      p.forward_degree = 3;
      p.backward_degree = 2;
      const Schedule s = build_schedule(two_by_two(), p);
      validate(s);
      Plan linear = p;
      linear.all_to_all = AllToAll::Linear;
      linear.all_to_all_implementation = AllToAllImplementation::PointToPoint;
      const auto expected = work_of(build_schedule(two_by_two(), linear)), got = work_of(s);
      CHECK(got.size() == expected.size());
      const auto steps = algorithm.steps(std::vector{2, 2});
      for (const auto& [key, sum] : expected) {
        const Sum& mine = got.at(key);
        CHECK(mine.flops == sum.flops);
        CHECK(mine.gemms == sum.gemms);
        const bool exchange = key.first == OpKind::Dispatch || key.first == OpKind::Combine;
        if (!exchange) {
          CHECK(mine.message == sum.message);
          CHECK(mine.traffic == sum.traffic);
          continue;
        }
        CHECK(sum.message == buffer);
        CHECK(mine.message == buffer / 4 * static_cast<double>(exchanged_blocks(steps)));
        CHECK(mine.traffic == 2 * buffer / 4 * static_cast<double>(copied_blocks(steps)));
      }
    }
}

TEST_CASE("a fused all-to-all is one op that uses both kinds of links and device memory at once") {
  Experiment e = two_by_two();
  e.calibration.edit().memory = {Seconds(1e-6), SecondsPerByte(1e-9), {}};
  const PricedSchedule fused = price_plan(e, stepped(AllToAll::TwoDimensional, AllToAllImplementation::Fused));
  const PricedSchedule steps = price_plan(e, stepped(AllToAll::TwoDimensional));
  const auto first_dispatch = [](const PricedSchedule& p) {
    for (const OpId i : p.schedule->ops.ids())
      if (p.schedule->ops[i].kind == OpKind::Dispatch) return i;
    return OpId();
  };
  const OpId one = first_dispatch(fused), copy = first_dispatch(steps);
  // Exchanges 1 ms + 1 ns/B of 512 B on each kind of link; copies 2 (1 us + 1024 ns).
  CHECK(fused.duration[one].value() == Approx(1e-3 + 2 * 1024e-9));
  const auto demands = fused.demands_of(PricedSchedule::only_activity(one));
  REQUIRE(demands.size() == 3);
  CHECK(fused.resources[static_cast<std::size_t>(demands[0].resource)] == "compute");
  CHECK(demands[0].seconds.value() == Approx(2 * 1024e-9));
  CHECK(fused.resources[static_cast<std::size_t>(demands[1].resource)] == "inter");
  CHECK(demands[1].seconds.value() == Approx(512e-9));
  CHECK(fused.resources[static_cast<std::size_t>(demands[2].resource)] == "intra");
  CHECK(steps.duration[copy].value() == Approx(1e-6 + 1024e-9));
  CHECK(steps.duration[OpId(copy + 1)].value() == Approx(1e-3 + 512e-9));
  const auto copy_demands = steps.demands_of(PricedSchedule::only_activity(copy));
  REQUIRE(copy_demands.size() == 1);
  CHECK(steps.resources[static_cast<std::size_t>(copy_demands[0].resource)] == "compute");
}

TEST_CASE("tensors between steps are counted: a leader of hierarchical_1d holds its node's rows") {
  const Schedule s = build_schedule(two_by_two(), stepped(AllToAll::Hierarchical1d));
  std::vector<std::int64_t> elements;
  for (const Tensor& t : s.tensors)
    if (t.kind == TensorKind::Staging && elements.size() < 4) elements.push_back(t.elements);
  CHECK(elements == std::vector<std::int64_t>{256, 256, 256, 256});  // 2 ranks' 128, four times
  int tensors = 0;
  for (const Tensor& t : build_schedule(two_by_two(), Plan{}).tensors) tensors += t.kind == TensorKind::Staging;
  CHECK(tensors == 0);
}

TEST_CASE("a group with one rank per node exchanges at once, whatever the algorithm") {
  Plan p;
  p.all_to_all = AllToAll::TwoDimensional;
  const Experiment e = test::round_numbers();  // ep 2 on 2 nodes
  CHECK(build_schedule(e, p).ops.size() == build_schedule(e, Plan{}).ops.size());
}
