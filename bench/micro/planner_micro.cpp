// SPDX-License-Identifier: Apache-2.0
// Planner hot paths, on FSMoE's testbed B with Mixtral-8x7B: the closed forms, the gradient partition, and what one
// evaluation of a plan costs. Goals: four_case 1 us, partition of 32 layers 1 ms, analytic pass of a layer 5 us, the
// unified planner 100 ms for 32 layers.
#include <benchmark/benchmark.h>

#include <memory>
#include <numeric>
#include <vector>

#include "bench/micro/experiments.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/results/step_range.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/closed_form/gradient_partition.hpp"
#include "planners/task/analytic_evaluator.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

Plan co_scheduled(int degree) {
  Plan plan;
  plan.forward_degree = plan.backward_degree = degree;
  plan.scope = Scope::Moe;
  plan.comm_streams = CommStreams::InterIntra;
  return plan;
}

std::vector<int> up_to(int last) {
  std::vector<int> degrees(static_cast<std::size_t>(last));
  std::iota(degrees.begin(), degrees.end(), 1);
  return degrees;
}

// The search of one phase of one layer: on the testbed, and without latencies, where it goes through all 16 degrees.
void four_case_layer(benchmark::State& state) {
  MoeTimes moe = layer_times(bench::testbed_b()).backward.moe;
  if (state.range(0) == 1)
    for (ChunkTime* t : {&moe.all_to_all, &moe.all_gather, &moe.reduce_scatter, &moe.expert}) t->alpha = Seconds(0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(moe);
    benchmark::DoNotOptimize(best_degree(moe, CommStreams::InterIntra, Seconds(2e-3), 16));
  }
}
BENCHMARK(four_case_layer)->Arg(0)->Arg(1)->ArgName("all_degrees");

void gradient_partition_layers(benchmark::State& state) {
  const LayerTimes times = layer_times(bench::testbed_b(static_cast<int>(state.range(0))));
  const GradientProblem problem = gradient_problem(times, CommStreams::InterIntra, up_to(16));
  for (auto _ : state) benchmark::DoNotOptimize(partition_gradients(problem));
}
BENCHMARK(gradient_partition_layers)->Arg(7)->Arg(32)->Unit(benchmark::kMicrosecond);

// The slowest of 800 random costs: every degree hides another amount, and most states stay in play.
void gradient_partition_hard(benchmark::State& state) {
  const auto chunk = [](double alpha, double work) { return ChunkTime{Seconds(alpha * 1e-3), Seconds(work * 1e-3)}; };
  LayerTimes times;
  const auto layers = static_cast<std::size_t>(state.range(0));
  times.moe.assign(layers, true);
  times.capacity = 960;
  times.dense_elements.assign(layers, 10'485'760);
  times.backward.moe = {chunk(.519, .186), chunk(.0442, 3.4), chunk(.0535, 7.36), chunk(.0343, 15.6)};
  times.backward.attention = Seconds(1.13e-3);
  times.backward.mp_before = times.backward.mp_after = Seconds(1e-4);
  times.all_reduce_alpha = Seconds(1.02e-5);
  times.all_reduce_per_element = Seconds(1.1e-9);
  const GradientProblem problem = gradient_problem(times, CommStreams::InterIntra, up_to(16));
  for (auto _ : state) benchmark::DoNotOptimize(partition_gradients(problem));
}
BENCHMARK(gradient_partition_hard)->Arg(7)->Arg(32)->Unit(benchmark::kMicrosecond);

// Ideal overlap, interference, and ideal overlap with the host's time of each launch.
void analytic_layer(benchmark::State& state, Overlap overlap, Seconds launch) {
  Experiment e = bench::testbed_b(1, overlap);
  if (launch > Seconds(0)) e.calibration.edit().host = HostCost{launch, {}};
  const PricedSchedule priced = price_plan(e, co_scheduled(8));
  std::vector<double> scratch;
  for (auto _ : state) benchmark::DoNotOptimize(analytic_makespan(priced, scratch));
  state.counters["ops"] = static_cast<double>(priced.duration.size());
}
BENCHMARK_CAPTURE(analytic_layer, ideal, Overlap::Ideal, Seconds(0));
BENCHMARK_CAPTURE(analytic_layer, interfering, Overlap::Interfering, Seconds(0));
BENCHMARK_CAPTURE(analytic_layer, launches, Overlap::Ideal, Seconds(1e-5));

void build_layer(benchmark::State& state) {
  const Experiment e = bench::testbed_b();
  const Plan plan = co_scheduled(8);
  for (auto _ : state) benchmark::DoNotOptimize(build_schedule(e, plan));
}
BENCHMARK(build_layer);

void price_layer(benchmark::State& state, Overlap overlap) {
  const Experiment e = bench::testbed_b(1, overlap);
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, co_scheduled(8)));
  for (auto _ : state) benchmark::DoNotOptimize(price(schedule, e));
}
BENCHMARK_CAPTURE(price_layer, ideal, Overlap::Ideal);
BENCHMARK_CAPTURE(price_layer, interfering, Overlap::Interfering);

// Kernels by their shapes, which have been asked for before.
void price_layer_by_shapes(benchmark::State& state) {
  const Experiment e = bench::h100s();
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, co_scheduled(8)));
  for (auto _ : state) benchmark::DoNotOptimize(price(schedule, e));
}
BENCHMARK(price_layer_by_shapes);

// The interval of a step of 32 layers, from 200 draws of its costs.
void draw_costs(benchmark::State& state, Experiment (*experiment)(int, Overlap), Overlap overlap) {
  const Experiment e = experiment(32, overlap);
  const std::vector<std::shared_ptr<const Schedule>> steps{
      std::make_shared<const Schedule>(build_schedule(e, co_scheduled(8)))};
  for (auto _ : state) benchmark::DoNotOptimize(step_ranges(e, steps, 200, 0));
  state.counters["ops"] = static_cast<double>(steps.front()->ops.size());
}
BENCHMARK_CAPTURE(draw_costs, testbed_b_ideal, bench::testbed_b, Overlap::Ideal)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(draw_costs, testbed_b, bench::testbed_b, Overlap::Interfering)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(draw_costs, h100s, bench::h100s, Overlap::Interfering)->Unit(benchmark::kMillisecond);

// A shape that nobody has asked for: its neighbours among 3000 measured ones are looked for.
void new_kernel_shape(benchmark::State& state) {
  const Experiment e = bench::h100s();
  const KernelTable& table = *find_table(e.calibration->tables, KernelKind::Gemm, DType::Bf16);
  std::int64_t rows = 1;
  for (auto _ : state) benchmark::DoNotOptimize(table.seconds(gemm_shape(++rows, 4096, 4096)));
}
BENCHMARK(new_kernel_shape);

void read_layer_times(benchmark::State& state) {
  const Experiment e = bench::testbed_b(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(layer_times(e));
}
BENCHMARK(read_layer_times)->Arg(1)->Arg(32)->Unit(benchmark::kMicrosecond);

// The whole planner with its analytic evaluations.
void four_case_planner(benchmark::State& state) {
  const Experiment e = bench::testbed_b(static_cast<int>(state.range(0)));
  Plan base = co_scheduled(1);
  base.grad_sync = GradSync::Partitioned;
  const PlanningTask task{e, base, {"four_case", up_to(16), false}};
  const Evaluator evaluate = analytic_evaluator(e);
  const Planner& planner = find_planner("four_case");
  for (auto _ : state) benchmark::DoNotOptimize(planner.choose(task, evaluate));
}
BENCHMARK(four_case_planner)->Arg(7)->Arg(32)->Unit(benchmark::kMillisecond);

// The whole space of plans: 4.8 million points, contradictory ones included.
void unified_planner(benchmark::State& state, Overlap overlap) {
  Experiment e = bench::testbed_b(static_cast<int>(state.range(0)), overlap);
  e.cluster.device.memory = Bytes(1e12);  // that all layers fit
  Plan base;
  base.scope = Scope::Moe;
  const PlanningTask task{e, base, {"dovetail", up_to(16), false, SearchSpace::Plans}};
  const Evaluator evaluate = analytic_evaluator(e);
  const Planner& planner = find_planner("dovetail");
  for (auto _ : state) {
    const PlanChoice choice = planner.choose(task, evaluate);
    state.counters["predicted"] = static_cast<double>(choice.report.evaluations);
    if (choice.report.proof)
      state.counters["gap_percent"] = 100 * (choice.report.proof->best / choice.report.proof->bound - 1);
  }
}
BENCHMARK_CAPTURE(unified_planner, ideal, Overlap::Ideal)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unified_planner, interfering, Overlap::Interfering)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);

}  // namespace
