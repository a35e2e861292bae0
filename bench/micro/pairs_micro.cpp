// SPDX-License-Identifier: Apache-2.0
// The cost of a long step in pairs: DeepSeek-V3 with 61 layers on 16 pipeline stages of 2 virtual ones, 64
// micro-batches. Goal: built, priced and simulated in 300 ms.
#include <benchmark/benchmark.h>

#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"

namespace {

using namespace dovetail;

Experiment deepseek() {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = "deepseek-v3";
  request.nodes = 32;
  request.set = {
      "workload.mtp_layers=0", "workload.batch=64", "workload.capacity_factor=0", "workload.message_sizes=routed",
      "parallelism.pp=16",     "parallelism.dp=16", "parallelism.mp=1",           "parallelism.ep=16"};
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

Plan plan_of(Scope scope) {
  Plan plan;
  plan.scope = scope;
  plan.comm_streams = CommStreams::ByGroup;
  plan.scores_at = ScoresAt::Experts;
  plan.expert_kernel = ExpertKernel::Grouped;
  plan.pipeline_schedule = pipeline_schedule("interleaved");
  plan.virtual_stages = 2;
  plan.micro_batches = 64;
  return plan;
}

void long_step(benchmark::State& state, Scope scope) {
  const Experiment e = deepseek();
  const Plan plan = plan_of(scope);
  std::vector<double> scratch;
  std::size_t ops = 0;
  for (auto _ : state) {
    const PricedSchedule priced = price_plan(e, plan);
    ops = priced.schedule->ops.size();
    benchmark::DoNotOptimize(analytic_makespan(priced, scratch));
  }
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK_CAPTURE(long_step, apart, Scope::Layer)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(long_step, paired, Scope::Batch)->Unit(benchmark::kMillisecond);

}  // namespace
