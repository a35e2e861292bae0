// SPDX-License-Identifier: Apache-2.0
// The cost of one simulation: forward and backward of an MoE layer (Mixtral-8x7B on FSMoE's testbed B), pipelined.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "bench/micro/experiments.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "sim/simgrid_backend.hpp"

namespace {

using namespace dovetail;

PricedSchedule layer(int degree, bool interference) {
  Experiment experiment = bench::testbed_b(1, Overlap::Interfering);
  experiment.calibration.edit().interference.clear();
  if (interference) {
    experiment.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 0.9, 0.8, {}},
                                                  {InterferenceClass::Compute, InterferenceClass::Intra, 0.95, 0.7, {}},
                                                  {InterferenceClass::Inter, InterferenceClass::Intra, 1.0, 1.0, {}}};
  }
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = degree;
  plan.comm_streams = CommStreams::InterIntra;
  const auto schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
  return price(schedule, experiment);
}

void run(benchmark::State& state, Backend& backend, bool interference) {
  const PricedSchedule priced = layer(static_cast<int>(state.range(0)), interference);
  for (auto _ : state) benchmark::DoNotOptimize(backend.run(priced));
  const auto ops = static_cast<double>(priced.schedule->ops.size());
  state.counters["ops"] = ops;
  state.counters["ops/s"] = benchmark::Counter(ops, benchmark::Counter::kIsIterationInvariantRate);
}

void simulate_interference(benchmark::State& state) {
  sim::SimGridBackend backend;
  run(state, backend, true);
}
BENCHMARK(simulate_interference)->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMicrosecond);

void simulate_without_sharing(benchmark::State& state) {
  sim::SimGridBackend backend;
  run(state, backend, false);
}
BENCHMARK(simulate_without_sharing)->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMicrosecond);

void predict(benchmark::State& state) {
  AnalyticBackend backend;
  run(state, backend, true);
}
BENCHMARK(predict)->Arg(8)->Unit(benchmark::kMicrosecond);

}  // namespace
