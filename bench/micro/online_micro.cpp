// SPDX-License-Identifier: Apache-2.0
// The cost of an online planner in a training step: a choice at a load that was seen before, at a new one, a report,
// and the rebuilding of buckets that the first report at a load brings. The argument is how many loads are known.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "planners/online/bucketed_search.hpp"
#include "planners/online/granularity_search.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

OnlineSettings eight() {
  return {{"1", "2", "3", "4", "5", "6", "7", "8"}, "", 50, {}};
}

// Launches and what is left of an exchange: the best degree grows with the load.
Seconds time_of(std::size_t strategy, double load) {
  const double degree = static_cast<double>(strategy) + 1;
  return Seconds(1e-3 * degree + 1e-5 * load * (1 + 1 / degree));
}

// Tried everywhere: loads 1, 2 .. n.
template <class Planner>
Planner trained(std::int64_t loads) {
  Planner planner(eight());
  std::vector<double> order;
  for (std::int64_t i = 1; i <= loads; ++i) order.push_back(static_cast<double>(i));
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (int round = 0; round < 10; ++round)
    for (double load : order) planner.report(time_of(planner.choose({1, load}), load));
  return planner;
}

// One of the whole loads that a planner was trained with.
double known_load(const benchmark::State& state) {
  const std::int64_t middle = state.range(0) / 2;
  return static_cast<double>(middle);
}

template <class Planner>
void choose_known(benchmark::State& state) {
  auto planner = trained<Planner>(state.range(0));
  const double load = known_load(state);
  for (auto _ : state) benchmark::DoNotOptimize(planner.choose({1, load}));
}
BENCHMARK(choose_known<BucketedSearch>)->Arg(100)->Arg(1000);
BENCHMARK(choose_known<GranularitySearch>)->Arg(100)->Arg(1000);

// Between known loads: one of the bucket, or of the range around it.
template <class Planner>
void choose_new(benchmark::State& state) {
  auto planner = trained<Planner>(state.range(0));
  std::mt19937 engine(2);
  std::uniform_real_distribution<double> load(1, static_cast<double>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(planner.choose({1, load(engine)}));
}
BENCHMARK(choose_new<BucketedSearch>)->Arg(100)->Arg(1000);
BENCHMARK(choose_new<GranularitySearch>)->Arg(100)->Arg(1000);

template <class Planner>
void report_known(benchmark::State& state) {
  auto planner = trained<Planner>(state.range(0));
  const double load = known_load(state);
  for (auto _ : state) planner.report({1, load}, 3, time_of(3, load));
}
BENCHMARK(report_known<BucketedSearch>)->Arg(100)->Arg(1000);
BENCHMARK(report_known<GranularitySearch>)->Arg(100)->Arg(1000);

// The first report at a load: its buckets are made anew, or its range grows.
template <class Planner>
void insert_new(benchmark::State& state) {
  const auto before = trained<Planner>(state.range(0));
  const double load = static_cast<double>(state.range(0)) + 50;
  for (auto _ : state) {
    state.PauseTiming();
    auto planner = before;
    state.ResumeTiming();
    planner.report({1, load}, 7, time_of(7, load));
  }
}
BENCHMARK(insert_new<BucketedSearch>)->Arg(100)->Arg(1000)->Iterations(300);
BENCHMARK(insert_new<GranularitySearch>)->Arg(100)->Arg(1000)->Iterations(300);

}  // namespace
