// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_device/device_numerics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "exec/device/channels.hpp"
#include "exec/device/device_memory.hpp"
#include "exec/device/device_run.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/run/training.hpp"
#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/support/random_plans.hpp"

namespace dovetail::test {

using namespace exec;

namespace {

using MakeChecked = std::function<std::unique_ptr<DeviceExecutor>(std::shared_ptr<const Schedule>, const ModelData&,
                                                                  const DeviceSettings&)>;

bool host_waits(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ops, [](const Op& op) { return op.kind == OpKind::HostSync; });
}

void check_step(const Experiment& e, const Plan& plan, const DeviceCheck& how, const MakeChecked& make) {
  INFO(describe(e, plan));
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const ModelData data = rounded(random_model_data(e, how.seed, plan.micro_batches), how.scalar);
  const ComputeRules rules = rules_of(*schedule);
  const Reference reference = compute_reference(e, data, rules);
  DeviceSettings settings;
  settings.scalar = how.scalar;
  if (how.preset) settings.routing = reference.routing;
  const auto executor = make(schedule, data, settings);
  executor->run_step(Poison::Yes);
  if (how.graph) {
    const std::string reason = executor->capture();
    REQUIRE(reason == (host_waits(*schedule) ? "the host waits in it" : ""));
    executor->run_step(Poison::Before);
  }
  const NumericsReport r = compare(e, *schedule, *executor, reference);
  INFO(fmt::format("gradient errors: input {}, dense {}, router {}, experts {}", r.input_gradient_error,
                   r.dense_gradient_error, r.router_gradient_error, r.expert_gradient_error));
  CHECK(r.dropped == r.reference_dropped);
  const double tolerance = rounding_growth(e) * device_tolerance(how.scalar, rules);
  CHECK(r.output_error <= tolerance);
  CHECK(r.gradient_error() <= tolerance);
}

}  // namespace

void check_on_device(ComputeDevice& device, const Experiment& e, const Plan& plan, const DeviceCheck& how) {
  check_step(e, plan, how,
             [&](std::shared_ptr<const Schedule> schedule, const ModelData& data, const DeviceSettings& settings) {
               return make_device_executor(device, e, std::move(schedule), data, settings);
             });
}

DeviceGroup loop_group(int ranks, const Cancellation& cancellation, const MakeDevice& make_device) {
  DeviceGroup group;
  group.ranks = static_cast<std::size_t>(ranks);
  group.make_device = make_device;
  const auto networks =
      std::make_shared<std::vector<std::unique_ptr<DeviceNetwork>>>(make_loop_networks(ranks, cancellation));
  group.make_network = [networks](std::size_t local) { return std::move((*networks)[local]); };
  group.network = "host";
  return group;
}

void check_on_devices(const Experiment& e, const Plan& plan, const DeviceCheck& how, const MakeDevice& make_device) {
  Cancellation cancellation;
  const DeviceGroup group = loop_group(e.cluster.gpus(), cancellation, make_device);
  check_step(
      e, plan, how,
      [&](const std::shared_ptr<const Schedule>& schedule, const ModelData& data, const DeviceSettings& settings) {
        return make_group_executor(group, e, schedule, data, settings, cancellation);
      });
}

Plan random_plan_on_device(Random& random, const Experiment& e) {
  for (;;) try {
      const Plan plan = random_legal_plan(random, e);
      require_messages_in_turn(build_schedule(e, plan));
      return plan;
    } catch (const InputError&) {  // another one
    }
}

void check_trainings(int models, std::uint64_t seed, bool graph, const MakeExecutor& make) {
  constexpr int steps = 4;
  Random random(seed);
  for (int run = 0; run < models;) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.extent != Extent::Model || e.workload.phases != Phases::Training || e.cluster.gpus() > 8 ||
        e.workload.gate.batch_prioritised || e.workload.gate.kind == GateKind::ExpertChoice)
      continue;
    ++run;
    INFO(describe(e, plan));
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
    ModelData data = random_model_data(e, 5, plan.micro_batches);
    const auto executor = make(e, schedule, data);
    executor->run_step(Poison::No);
    if (graph) executor->capture();
    const TrainingReport r = train(*executor, e, *schedule, std::move(data), {steps, 5, true, {}});
    const double tolerance = rounding_growth(e) * device_tolerance(Stored::Double, rules_of(*schedule));
    CHECK(r.loss_error <= tolerance);
    CHECK(r.weight_error <= tolerance);
  }
}

void check_systems_on_device(ComputeDevice& device, bool graph) {
  Random random(7);
  int in_bf16 = 0;
  for (const std::string& name : known_names("systems")) {
    Plan plan = shipped_plan(name);
    int run = 0;
    for (int attempt = 0; run < 3 && attempt < 1000; ++attempt) {
      Experiment e = random_on_device(random);
      cut_rows(plan, 2 + attempt % 2);
      fill_pipeline(plan, e);
      // ReLU has a kink, at which a rounded input may fall on the other side.
      e.model.expert_kind = ExpertKind::Gated;
      if (refusal(plan, e)) continue;
      INFO(name);
      for (Stored scalar : {Stored::Double, Stored::Float, Stored::Bf16}) {
        // Without normalisation scores grow from layer to layer, and the softmax makes much of what bf16 rounds off.
        // So do cosines, which are divided by a temperature.
        if (scalar == Stored::Bf16 && (e.workload.layers > 1 || e.workload.gate.cosine())) continue;
        in_bf16 += scalar == Stored::Bf16;
        Experiment in_format = e;
        in_format.workload.dtype = scalar == Stored::Double  ? DType::Fp64
                                   : scalar == Stored::Float ? DType::Fp32
                                                             : DType::Bf16;
        check_on_device(device, in_format, plan, {scalar, true, graph, 5});
      }
      ++run;
    }
    CHECK(run == 3);
  }
  CHECK(in_bf16 >= 5);
}

}  // namespace dovetail::test
