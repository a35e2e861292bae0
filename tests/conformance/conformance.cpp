// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/conformance.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "models/plan/plan.hpp"
#include "tests/support/experiments.hpp"

namespace dovetail::test {
namespace {

// As a share of the makespan: the error that rounding may cause in an inequality between times.
constexpr double tolerance = 1e-9;

bool same(const Timeline& a, const Timeline& b) {
  return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [](const Interval& x, const Interval& y) { return x.start == y.start && x.finish == y.finish; });
}

Seconds makespan(const Timeline& timeline) {
  Seconds end;
  for (const Interval& op : timeline.ops) end = std::max(end, op.finish);
  return end;
}

void check_order(const Schedule& schedule, const Timeline& timeline, Seconds slack) {
  std::vector<Seconds> stream_free(schedule.streams.size());
  for (const OpId i : schedule.ops.ids()) {
    const Op& op = schedule.ops[i];
    const Interval& when = timeline.ops[i];
    INFO("op " << i << " runs from " << when.start.value() << " to " << when.finish.value());
    CHECK(when.start >= Seconds(0));
    CHECK(when.finish >= when.start);
    for (const OpId dependency : schedule.dependencies_of(op)) {
      INFO("depends on op " << dependency);
      CHECK(when.start + slack >= timeline.ops[dependency].finish);
    }
    Seconds& free = stream_free[static_cast<std::size_t>(op.stream)];
    CHECK(when.start + slack >= free);
    free = when.finish;
  }
}

// No op begins before the host of its rank class has issued it and all before it.
void check_issued(const PricedSchedule& priced, const Timeline& timeline, Seconds slack) {
  const Schedule& s = *priced.schedule;
  if (priced.launch.empty()) return;
  std::vector<Seconds> host(s.classes.size());
  for (const OpId i : s.ops.ids()) {
    Seconds& clock = host[static_cast<std::size_t>(s.class_of(s.ops[i]))];
    clock += priced.launch[i];
    INFO("op " << i << " is issued at " << clock.value() << " and begins at " << timeline.ops[i].start.value());
    CHECK(timeline.ops[i].start + slack >= clock);
    if (std::holds_alternative<HostWait>(*s.ops[i].work)) clock = std::max(clock, timeline.ops[i].finish);
  }
}

// An op of several activities may take less than alone: others that hold one of them back leave more to the rest, which
// may be what ended last. Its busiest resource bounds it all the same.
Seconds least_time(const PricedSchedule& priced, OpId op) {
  if (priced.first_activity.empty()) return priced.duration[op];
  std::vector<Seconds> busy(priced.resources.size());
  priced.for_each_demand(op, [&](const Demand& d) { busy[static_cast<std::size_t>(d.resource)] += d.seconds; });
  return priced.fixed[op] + *std::ranges::max_element(busy);
}

}  // namespace

Experiment conformance_experiment(int ranks, bool staged) {
  Experiment e = round_numbers(staged ? 4 : 2);
  e.workload.batch = 2;
  e.cluster.nodes = 2;
  e.cluster.gpus_per_node = ranks / 2;
  e.parallelism = default_parallelism(e.cluster, e.model);
  if (staged) e.parallelism = {.dp = ranks / 2, .mp = 1, .ep = ranks / 2, .esp = 1, .pp = 2, .edp = 1};
  return e;
}

std::vector<Plan> conformance_plans(bool staged) {
  std::vector<Plan> all(7);
  all[1].scope = Scope::Moe;
  all[1].forward_degree = all[1].backward_degree = 2;
  all[2] = all[1];
  all[2].comm_streams = CommStreams::InterIntra;
  all[2].forward_degree = 4;
  all[3] = all[2];
  all[3].grad_sync = GradSync::WithDense;
  all[4] = all[1];
  all[4].order = Order::Alternate;
  all[4].comm_streams = CommStreams::DispatchCombine;
  all[4].restore = Restore::S1;
  all[4].buffers = Buffers::Double;
  all[5] = all[2];
  all[5].order = Order::ReadyFirst;
  all[6] = all[1];
  all[6].micro_batches = 2;
  all[6].pipeline_schedule = pipeline_schedule("1f1b");
  if (!staged) return all;
  all.push_back(all[6]);
  all.back().pipeline_schedule = pipeline_schedule("interleaved");
  all.back().virtual_stages = 2;
  all.push_back(all.back());
  all.back().pipeline_schedule = pipeline_schedule("zb_v");
  all.push_back(all[6]);
  all.back().pipeline_schedule = pipeline_schedule("zb_h1");
  return all;
}

void check_conformance(Backend& backend, const PricedSchedule& priced) {
  const Timeline timeline = backend.run(priced);
  REQUIRE(timeline.ops.size() == priced.schedule->ops.size());
  const Seconds slack = makespan(timeline) * tolerance;
  check_order(*priced.schedule, timeline, slack);
  if (timeline.kind == ResultKind::Measured) return;

  check_issued(priced, timeline, slack);
  for (const OpId i : timeline.ops.ids()) {
    INFO("op " << i);
    CHECK(timeline.ops[i].finish - timeline.ops[i].start + slack >= least_time(priced, i));
  }
  CHECK(makespan(timeline) + slack >= (priced.first_activity.empty() ? plan_bound(priced) : lower_bound(priced)));
  CHECK(same(timeline, backend.run(priced)));
}

}  // namespace dovetail::test
