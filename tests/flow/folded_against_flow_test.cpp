// SPDX-License-Identifier: Apache-2.0
// The folded network against every message by itself: whole schedules of random plans on random clusters. Calibrated
// rates and device memory are made fast enough never to hold anything up, since the reference does not know them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "models/base/errors.hpp"
#include "models/network/schedule_classes.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/volumes.hpp"
#include "models/time/analytic_backend.hpp"
#include "sim/flow_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  bool coin() { return below(2) == 0; }

  Experiment experiment(int most_gpus) {
    Experiment e = test::round_numbers();
    Cluster& c = e.cluster;
    do {
      c.nodes = 1 << below(6);
      c.gpus_per_node = 1 << below(4);
    } while (c.gpus() > most_gpus || c.gpus() < 2);
    c.device.memory_bandwidth = BytesPerSecond(1e18);
    c.node_bandwidth = BytesPerSecond(1e6 * (1 + below(16)));
    c.nic_bandwidth = BytesPerSecond(1e5 * (1 + below(8)));
    c.nics_per_node = coin() ? 1 : c.gpus_per_node;
    c.network = NetworkDescription{};
    if (coin()) c.node_link = NodeLink::NvSwitch;
    if (c.nodes >= 4 && coin()) {
      c.network->fabric = {{"leaf", 2, 1.0 + below(4)}};
      if (c.nodes >= 8 && coin()) c.network->fabric.push_back({"pod", 4, 1.0 + below(3)});
    }
    e.model.attention = {4, 4, 4};
    e.model.hidden = 16;
    e.model.expert_hidden = 32;
    e.model.experts = c.gpus() * (1 + below(2));
    e.workload.sequence = 64;
    e.parallelism = coin() ? default_parallelism(c, e.model)
                           : Parallelism{.dp = c.gpus(), .mp = 1, .ep = c.gpus(), .esp = 1, .pp = 1, .edp = 1};
    if (coin()) e.calibration.edit().host = HostCost{Seconds(1e-5 * (1 + below(20))), {}};
    for (CollectiveCost& cost : e.calibration.edit().collectives)
      cost = {cost.collective, cost.link, 0, Seconds(1e-4 * below(20)), SecondsPerByte(1e-18), {}};
    return e;
  }

  Plan plan() {
    Plan plan;
    plan.scope = Scope::Moe;
    plan.forward_degree = plan.backward_degree = 1 + below(3);
    plan.comm_streams = coin() ? CommStreams::InterIntra : CommStreams::One;
    if (coin()) plan.all_to_all = AllToAll::TwoDimensional;
    plan.host_sync = below(4) == 0;
    return plan;
  }

 private:
  std::mt19937 random_;
};

// The largest difference of the finish of any op, in shares of the step.
double apart(const Experiment& e, const Plan& plan) {
  const auto schedule = std::make_shared<const Schedule>(split_by_class(e, build_schedule(e, plan)));
  const PricedSchedule priced = price(schedule, e);
  sim::FlowBackend flow;
  flow.prepare(e);
  const Timeline folded = AnalyticBackend().run(priced), flows = flow.run(priced);
  double most = 0;
  for (const OpId i : folded.ops.ids())
    most = std::max(most, std::abs(folded.ops[i].finish.value() - flows.ops[i].finish.value()));
  return most / metrics(*schedule, flows).makespan.value();
}

// Draws that no plan allows (routed messages with 2DH, say) are left out.
template <class Change>
double worst(int draws, int most_gpus, Change change) {
  double most = 0;
  int compared = 0;
  for (int seed = 0; seed < draws; ++seed) {
    Draw draw(static_cast<std::uint32_t>(seed));
    Experiment e = draw.experiment(most_gpus);
    Plan plan = draw.plan();
    change(draw, e);
    if (e.workload.message_sizes == MessageSizes::Routed && draw.coin()) {
      plan.expert_kernel = ExpertKernel::Grouped;
      plan.row_tile = 8;
    }
    try {
      validate(e);
      validate(plan, e);
    } catch (const InputError&) {
      continue;
    }
    const double difference = apart(e, plan);
    UNSCOPED_INFO("seed " << seed << ", " << e.cluster.nodes << " x " << e.cluster.gpus_per_node << " GPUs, mp "
                          << e.parallelism.mp << ", ep " << e.parallelism.ep << ": 1e" << std::log10(difference));
    most = std::max(most, difference);
    ++compared;
  }
  CHECK(compared > draws / 3);
  return most;
}

}  // namespace

TEST_CASE("equal ranks: folded as flow by flow") {
  CHECK(worst(30, 32, [](Draw&, Experiment&) {}) < 1e-9);
}

TEST_CASE("128 equal ranks") {
  Draw draw(1);
  Experiment e = draw.experiment(32);
  e.cluster.nodes = 16;
  e.cluster.gpus_per_node = 8;
  e.cluster.nics_per_node = 8;
  e.cluster.network->fabric = {{"leaf", 4, 2}};
  e.model.experts = 128;
  e.workload.phases = Phases::ForwardOnly;
  e.parallelism = {.dp = 128, .mp = 1, .ep = 128, .esp = 1, .pp = 1, .edp = 1};
  Plan plan;
  plan.scope = Scope::Moe;
  CHECK(apart(e, plan) < 1e-9);
}

TEST_CASE("unequal loads of experts and slow parts: folded as flow by flow") {
  CHECK(worst(40, 16, [](Draw& draw, Experiment& e) {
          if (draw.coin()) {
            e.workload.message_sizes = MessageSizes::Routed;
            e.workload.routing.kind = draw.coin() ? RoutingKind::Zipf : RoutingKind::Hot;
          }
          if (draw.coin()) e.cluster.network->slow = {{{0}, {}, .5, .5, .25}};
        }) < 1e-9);
}
