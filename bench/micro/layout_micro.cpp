// SPDX-License-Identifier: Apache-2.0
// Layouts of whole models: how many plans on layouts a second are estimated, how many are seen to be too large, how
// long a whole search takes, and what predicting a step of many micro-batches from two of few saves. Goals: 5,000
// configurations of a whole model a second, 100,000 that do not fit, 5 s for 256 GPUs, 20 s for 4,096.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/layouts/layout_search.hpp"
#include "planners/steps/step_prediction.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

Experiment question(const std::string& model, int nodes) {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.nodes = nodes;
  request.model = model;
  request.set = {R"(parallelism={"mp": 1, "esp": 1})", "workload.batch=1", "workload.sequence=4096"};
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

std::vector<System> systems() {
  std::vector<System> all;
  FilesRead files;
  for (const std::string& name : known_names("systems"))
    if (name != "dovetail") all.push_back(load_system(name, files));
  return all;
}

Plan piped_plan(int micro_batches) {
  Plan plan;
  plan.zero = 1;
  plan.micro_batches = micro_batches;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  return plan;
}

// Every layout once, with stages that nobody has looked at (0), or that all have been looked at (1).
void whole_model_configurations(benchmark::State& state) {
  const Experiment e = question("deepseek-v3", 32);
  std::vector<std::pair<Experiment, Plan>> configurations;
  for (const ParallelLayout& layout : layouts(e, {.global_batch = 1024}))
    if (layout.micro_batch <= 4) configurations.emplace_back(with_layout(e, layout), piped_plan(layout.micro_batches));
  StageCostTable known;
  PipelineOrders orders;
  const auto estimate_all = [&](StageCostTable& costs) {
    for (const auto& [laid_out, plan] : configurations)
      benchmark::DoNotOptimize(estimate(laid_out, plan, costs.of(laid_out, plan), costs.hop(laid_out, plan), orders));
  };
  estimate_all(known);
  for (auto _ : state) {
    StageCostTable costs;
    estimate_all(state.range(0) == 1 ? known : costs);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(configurations.size()));
}
BENCHMARK(whole_model_configurations)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// The search of a model that fits nowhere.
void layouts_that_do_not_fit(benchmark::State& state) {
  const Experiment e = question("kimi-k2", 4);
  std::int64_t layouts = 0;
  for (auto _ : state) {
    LayoutSearch search({e, {.global_batch = 1024}, e.cluster.device.memory, {}, {}, find_planner});
    benchmark::DoNotOptimize(search.best({}, 10));
    layouts += search.report().too_large;
  }
  state.SetItemsProcessed(layouts);
}
BENCHMARK(layouts_that_do_not_fit)->Unit(benchmark::kMillisecond);

void whole_search(benchmark::State& state, const std::string& model, int nodes, int global_batch) {
  const Experiment e = question(model, nodes);
  const std::vector<System> all = systems();
  for (auto _ : state) {
    LayoutSearch search({e, {.global_batch = global_batch}, .9 * e.cluster.device.memory, {}, {}, find_planner});
    benchmark::DoNotOptimize(search.best({.systems = all}, 10));
    state.counters["estimated"] = static_cast<double>(search.report().estimated);
    state.counters["predicted"] = static_cast<double>(search.report().predicted);
  }
}
BENCHMARK_CAPTURE(whole_search, qwen3_30b_on_16, "qwen3-30b-a3b", 2, 128)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(whole_search, mixtral_8x22b_on_128, "mixtral-8x22b", 16, 512)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(whole_search, deepseek_v3_on_256, "deepseek-v3", 32, 1024)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(whole_search, deepseek_v3_on_4096, "deepseek-v3", 512, 16384)->Unit(benchmark::kMillisecond);

ParallelLayout eight_stages() {
  ParallelLayout layout;
  layout.groups = {.dp = 8, .mp = 2, .ep = 8, .esp = 1, .pp = 8, .edp = 2};
  layout.micro_batches = 64;
  return layout;
}

// 64 micro-batches through eight stages: built whole, and predicted.
void step_of_64_micro_batches(benchmark::State& state) {
  const Experiment e = with_layout(question("mixtral-8x22b", 16), eight_stages());
  const Plan plan = piped_plan(64);
  for (auto _ : state) {
    if (state.range(0) == 1)
      benchmark::DoNotOptimize(StepPrediction(e, plan).time());
    else
      benchmark::DoNotOptimize(AnalyticBackend().run(price_plan(e, plan)));
  }
}
BENCHMARK(step_of_64_micro_batches)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
