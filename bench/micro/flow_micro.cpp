// SPDX-License-Identifier: Apache-2.0
// The cost of the flow-level reference: forward and backward of one MoE layer, whose experts lie on all GPUs, so that
// each of its four all-to-alls is a message between any two.
#include <benchmark/benchmark.h>

#include <memory>

#include "bench/micro/experiments.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "sim/flow_backend.hpp"

namespace {

using namespace dovetail;

void simulate_flows(benchmark::State& state) {
  Experiment experiment = bench::h100s();
  const int gpus = static_cast<int>(state.range(0));
  experiment.cluster.nodes = gpus / experiment.cluster.gpus_per_node;
  experiment.cluster.network = NetworkDescription{};
  experiment.cluster.network->fabric = {{"leaf", 4, 2}};
  experiment.model.experts = gpus;
  experiment.parallelism = {.dp = gpus, .mp = 1, .ep = gpus, .esp = 1, .pp = 1, .edp = 1};
  Plan plan;
  plan.scope = Scope::Moe;
  const auto schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
  const PricedSchedule priced = price(schedule, experiment);
  sim::FlowBackend backend;
  backend.prepare(experiment);
  for (auto _ : state) benchmark::DoNotOptimize(backend.run(priced));
}
// 128 GPUs took 4.0 s while flows were communications of SimGrid 3.32, where the same machine takes .17 s now.
BENCHMARK(simulate_flows)->Arg(128)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(simulate_flows)->Arg(1024)->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
