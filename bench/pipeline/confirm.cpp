// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/confirm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/cli/option_values.hpp"
#include "bench/pipeline/backends.hpp"
#include "exec/host/host_run.hpp"
#include "exec/run/scale_down.hpp"
#include "models/base/errors.hpp"
#include "planners/layouts/layout.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::bench {
namespace {

using Confirm = std::function<ConfirmedPlan(const SystemResult&)>;

Experiment laid_out(const Experiment& experiment, const SystemResult& plan) {
  return planners::with_layout(experiment, {plan.groups, plan.micro_batch, plan.plan.micro_batches});
}

// `experiment` outlives what is returned, here and below.
Confirm simulated(const Experiment& experiment, const std::string& backend, const EvaluatorSettings& settings) {
  return [&experiment, backend, settings](const SystemResult& plan) {
    const Experiment e = laid_out(experiment, plan);
    return ConfirmedPlan{0, plan.metrics.makespan, make_evaluator(backend, e, settings)(plan.plan)};
  };
}

// As many micro-batches as show the pipeline full, each of one sample. Values for single layers do not suit fewer
// layers, and the libraries that really send messages choose their protocol themselves.
Plan small_plan(Plan plan, int stages) {
  plan.micro_batches = std::min(plan.micro_batches, 2 * stages);
  plan.backward_degrees.clear();
  plan.gradient_slices.clear();
  plan.protocol = Protocol::Simple;
  if (plan.grad_sync == GradSync::Partitioned) plan.grad_sync = GradSync::WithDense;
  return plan;
}

Experiment small_experiment(const Experiment& big, const Plan& plan) {
  constexpr int tokens = 96;  // of a micro-batch on a rank; every usual degree divides it
  const Parallelism& p = big.parallelism;
  const int gpus = p.mp == 1 && p.esp == 1 ? 1 : 2;
  exec::HostScale scale;
  scale.ranks = 2 * p.pp * gpus;
  scale.layers = p.pp * plan.virtual_stages;
  scale.tokens_per_rank = tokens * plan.micro_batches;
  Experiment e = big;
  e.workload.batch = plan.micro_batches;
  return exec::scaled_for_host(e, scale);
}

Confirm executed(const Experiment& experiment, exec::RunDevice device, const EvaluatorSettings& settings) {
  return [&experiment, device, settings](const SystemResult& plan) {
    const Experiment big = laid_out(experiment, plan);
    const Plan small = small_plan(plan.plan, plan.groups.pp);
    Experiment e = small_experiment(big, small);
    if (device == exec::RunDevice::Cuda) {
      e.workload.dtype = big.workload.dtype;  // hosts compute in fp32
      exec::pad_for_device(e);
    }
    exec::resolve_routed_capacity(e, settings.seed);
    if (const std::optional<InputError> refused = planners::refusal(small, e)) throw InputError(*refused);
    return ConfirmedPlan{0, planners::analytic_evaluator(e)(small), measured_step(e, small, device, settings)};
  };
}

bool on_gpu(const std::string& by) {
  return by == name_in(exec::run_device_names, exec::RunDevice::Cuda);
}

Confirm confirmer(const Experiment& experiment, const std::string& by, const EvaluatorSettings& settings) {
  if (!really_runs(by)) {
    make_backend(by);  // or else none of the plans is confirmed
    return simulated(experiment, by, settings);
  }
  return executed(experiment, device_that_runs(by), settings);
}

}  // namespace

bool really_runs(const std::string& by) {
  return find_backend(by) == nullptr;
}

std::vector<std::string> confirmer_names() {
  std::vector<std::string> names;
  for (const BackendEntry& backend : backends())
    if (!backend.planners_model) names.emplace_back(backend.name);
  for (const auto& [name, device] : exec::run_device_names) names.emplace_back(name);
  return names;
}

Confirmer::Confirmer(const Experiment& experiment, const std::string& by, const EvaluatorSettings& settings) : by_(by) {
  choose("--confirm", by, confirmer_names());
  pads_ = on_gpu(by) && experiment.workload.message_sizes == MessageSizes::Routed;
  one_ = confirmer(experiment, by, settings);
}

Confirmation Confirmer::confirm(const std::vector<SystemResult>& plans,
                                const std::function<void(std::string_view)>& begin,
                                const std::function<void()>& done) const {
  Confirmation result{by_, really_runs(by_), {}, {}};
  std::optional<DeviceError> failure;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const int rank = static_cast<int>(i) + 1;
    const auto refuse = [&](const std::exception& error) {
      result.refused.push_back(fmt::format("plan {}: {}", rank, error.what()));
    };
    if (begin) begin(fmt::format("plan {} by {}", rank, by_));
    try {
      result.plans.push_back(one_(plans[i]));
      result.plans.back().rank = rank;
    } catch (const InputError& error) {
      refuse(error);
    } catch (const DeviceError& error) {
      refuse(error);
      if (!failure) failure = error;
    }
    if (done) done();
  }
  if (result.plans.empty() && failure) throw DeviceError(*failure);
  return result;
}

}  // namespace dovetail::bench
