// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/evaluators.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/gpu_service.hpp"
#include "exec/host/host_run.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "planners/task/analytic_evaluator.hpp"

namespace dovetail::bench {
namespace {

// Plans and what they took. Measured times differ from run to run, so a planner must not ask twice.
class Memory {
 public:
  template <class Measure>
  Seconds time_of(const Plan& plan, const Measure& measure) {
    const auto known = std::ranges::find(times_, plan, &std::pair<Plan, Seconds>::first);
    if (known != times_.end()) return known->second;
    times_.emplace_back(plan, measure(plan));
    return times_.back().second;
  }

 private:
  std::vector<std::pair<Plan, Seconds>> times_;
};

planners::Evaluator measuring(const Experiment& experiment, exec::RunDevice device, const EvaluatorSettings& settings) {
  const auto measure = [&experiment, device, settings](const Plan& plan) {
    return measured_step(experiment, plan, device, settings);
  };
  return [measure, memory = std::make_shared<Memory>()](const Plan& plan) { return memory->time_of(plan, measure); };
}

exec::RunResult executed(const ScheduleFile& file, exec::RunDevice device, const exec::RunOptions& how) {
  if (device == exec::RunDevice::Host)
    return exec::run_on_host(file.experiment, std::make_shared<const PricedSchedule>(file.priced), how);
  const Writing writing;
  return gpu_service().run(file, how);
}

}  // namespace

Seconds measured_step(const Experiment& experiment, const Plan& plan, exec::RunDevice device,
                      const EvaluatorSettings& settings) {
  const bool host = device == exec::RunDevice::Host;
  exec::RunOptions how;
  how.hold_compute = host ? exec::HoldCompute::Always : exec::HoldCompute::Never;
  how.dilation = host ? 0 : 1;
  how.check_numerics = false;
  how.measure.limit = settings.measure_time;
  how.seed = settings.seed;
  const RunReport report = executed({experiment, plan, price_plan(experiment, plan)}, device, how).report;
  return exec::median(report.samples) / report.dilation;
}

planners::Evaluator make_evaluator(const std::string& name, const Experiment& experiment,
                                   const EvaluatorSettings& settings) {
  const EvaluatorTraits traits = evaluator_traits(name);
  if (traits.kind == ResultKind::Measured) return measuring(experiment, device_that_runs(name), settings);
  if (traits.planners_model) return planners::analytic_evaluator(experiment);
  return [&experiment, backend = std::shared_ptr<Backend>(make_backend(name, settings.platform))](const Plan& plan) {
    const PricedSchedule priced = price_plan(experiment, plan);
    backend->prepare(experiment);
    return metrics(*priced.schedule, backend->run(priced)).makespan;
  };
}

EvaluatorTraits evaluator_traits(const std::string& name) {
  choose("--evaluator", name, evaluator_names());
  const BackendEntry* backend = find_backend(name);
  return backend == nullptr ? EvaluatorTraits() : EvaluatorTraits{backend->kind, backend->planners_model};
}

std::vector<std::string> evaluator_names() {
  std::vector<std::string> names;
  for (const BackendEntry& backend : backends()) names.emplace_back(backend.name);
  for (const auto& [name, device] : exec::run_device_names) names.emplace_back(name);
  return names;
}

exec::RunDevice device_that_runs(const std::string& name) {
  exec::RunRequest request;
  if (name == name_in(exec::run_device_names, exec::RunDevice::Cuda)) request.device = exec::RunDevice::Cuda;
  exec::require_parts(request, exec::parts_of_this_build());
  return request.device;
}

std::string describe_measured_times(exec::RunDevice device) {
  return device == exec::RunDevice::Host
             ? "planners chose by measured times: every plan they asked for really ran, links and kernels held to "
               "their modelled times"
             : "planners chose by measured times: every plan they asked for really ran on one GPU, which stands for "
               "one rank; its kernels and copies are real, links are held to their modelled times";
}

}  // namespace dovetail::bench
