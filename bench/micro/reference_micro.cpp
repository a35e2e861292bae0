// SPDX-License-Identifier: Apache-2.0
// The exact solvers beside the papers' own: degrees of FSMoE's 1,458 layers of Table 4 by search and by SLSQP,
// gradients by dynamic programming and by differential evolution. And the whole planners memory_reuse,
// all_to_all_choice, shadowing.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "bench/micro/experiments.hpp"
#include "bench/pipeline/fsmoe_layers.hpp"
#include "models/base/build_info.hpp"
#include "models/question/capacity.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/closed_form/four_case_slsqp.hpp"
#include "planners/closed_form/gradient_evolution.hpp"
#include "planners/task/analytic_evaluator.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

std::vector<int> degrees_up_to(int last) {
  std::vector<int> degrees(static_cast<std::size_t>(last));
  std::iota(degrees.begin(), degrees.end(), 1);
  return degrees;
}

// A phase of a layer, with the all-reduce that it carries: backward that of the dense gradients of one such layer.
struct LayerPhase {
  MoeTimes moe;
  Seconds all_reduce;
};

std::vector<LayerPhase> table_4(char testbed) {
  std::vector<LayerPhase> phases;
  for (const Experiment& e : bench::fsmoe_layers(testbed)) {
    const LayerTimes t = layer_times(e);
    phases.push_back({t.forward.moe, Seconds(0)});
    phases.push_back({t.backward.moe,
                      t.all_reduce_alpha + t.all_reduce_per_element * static_cast<double>(t.dense_elements.front())});
  }
  return phases;
}

char testbed_of(const benchmark::State& state) {
  return state.range(0) == 0 ? 'a' : 'b';
}

void per_phase(benchmark::State& state, std::size_t phases) {
  state.counters["s/phase"] = benchmark::Counter(
      static_cast<double>(phases), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void four_case_table_4(benchmark::State& state) {
  const std::vector<LayerPhase> phases = table_4(testbed_of(state));
  for (auto _ : state)
    for (const LayerPhase& p : phases)
      benchmark::DoNotOptimize(best_degree(p.moe, CommStreams::InterIntra, p.all_reduce, 16));
  per_phase(state, phases.size());
}
BENCHMARK(four_case_table_4)->Arg(0)->Arg(1)->ArgName("b")->Unit(benchmark::kMillisecond);

#if DOVETAIL_HAS_NLOPT
// Regret of SLSQP's degrees by the exact makespan, in percent; `best`: how many have none.
void slsqp_table_4(benchmark::State& state) {
  const std::vector<LayerPhase> phases = table_4(testbed_of(state));
  const std::vector<int> degrees = degrees_up_to(16);
  for (auto _ : state)
    for (const LayerPhase& p : phases) benchmark::DoNotOptimize(slsqp_degree(p.moe, p.all_reduce, degrees));
  per_phase(state, phases.size());
  double sum = 0, most = 0, best = 0;
  for (const LayerPhase& p : phases) {
    const int degree = slsqp_degree(p.moe, p.all_reduce, degrees).degree;
    const double regret = exact_makespan(p.moe, CommStreams::InterIntra, degree, p.all_reduce) /
                              best_degree(p.moe, CommStreams::InterIntra, p.all_reduce, 16).time -
                          1;
    sum += regret;
    most = std::max(most, regret);
    best += regret < 1e-9 ? 1 : 0;
  }
  state.counters["mean%"] = 100 * sum / static_cast<double>(phases.size());
  state.counters["most%"] = 100 * most;
  state.counters["best"] = best;
  state.counters["phases"] = static_cast<double>(phases.size());
}
BENCHMARK(slsqp_table_4)->Arg(0)->Arg(1)->ArgName("b")->Unit(benchmark::kMillisecond)->Iterations(1);
#endif

// The paper's step 2, and how much slower its slices are than the exact ones.
void gradient_evolution_layers(benchmark::State& state) {
  const LayerTimes times = layer_times(bench::testbed_b(static_cast<int>(state.range(0))));
  const GradientProblem problem = gradient_problem(times, CommStreams::InterIntra, degrees_up_to(16));
  GradientPartition evolved;
  for (auto _ : state) benchmark::DoNotOptimize(evolved = evolve_partition(problem));
  state.counters["excess%"] = 100 * (evolved.time / partition_gradients(problem).time - 1);
}
BENCHMARK(gradient_evolution_layers)->Arg(7)->Arg(32)->Unit(benchmark::kMillisecond);

void choose(benchmark::State& state, const char* planner, const Experiment& e, const Plan& base) {
  const PlanningTask task{e, base, {planner, {1, 2, 4, 8, 16}, true}};
  const Evaluator evaluate = analytic_evaluator(e);
  long evaluations = 0;
  for (auto _ : state) evaluations = find_planner(planner).choose(task, evaluate).report.evaluations;
  state.counters["evaluations"] = static_cast<double>(evaluations);
}

Plan chunked() {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.order = Order::Alternate;
  return plan;
}

void memory_reuse_planner(benchmark::State& state) {
  choose(state, "memory_reuse", bench::testbed_b(7), chunked());
}
BENCHMARK(memory_reuse_planner)->Unit(benchmark::kMillisecond);

void all_to_all_choice_planner(benchmark::State& state) {
  choose(state, "all_to_all_choice", bench::testbed_b(7), chunked());
}
BENCHMARK(all_to_all_choice_planner)->Unit(benchmark::kMillisecond);

// Hot experts on ranks with whole experts.
void shadowing_planner(benchmark::State& state) {
  Experiment e = bench::testbed_b(7);
  e.parallelism = {.dp = 32, .mp = 1, .ep = 8, .esp = 1, .pp = 1, .edp = 4};
  e.workload.routing.kind = RoutingKind::Zipf;
  e.workload.capacity_factor = 0;
  resolve_capacity(e);
  choose(state, "shadowing", e, chunked());
}
BENCHMARK(shadowing_planner)->Unit(benchmark::kMillisecond);

}  // namespace
