// What only a GPU can show: the same steps there, captured or not, and how long a hold lasts.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "exec/device/cuda/cuda_check.hpp"
#include "exec/run/compute_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Ends the program as skipped where there is no GPU.
std::unique_ptr<ComputeDevice> gpu() {
  if (cuda_devices() > 0) return make_cuda_device(0);
  std::puts("skipped: no CUDA device here");
  std::exit(77);
}

double relative_difference(const Values& a, const Values& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

// Op by op, so that the first kernel that is wrong is the one that is named.
void compare_tensors(const Schedule& s, const DeviceExecutor& gpu, const DeviceExecutor& host) {
  for (const Op& op : s.ops)
    for (TensorId id : s.writes_of(op))
      for (std::size_t local = 0; local < gpu.ranks().size(); ++local) {
        const Tensor& t = s.tensors[static_cast<std::size_t>(id)];
        INFO(to_string(op) << " writes " << to_string(t) << " on rank " << local);
        REQUIRE(relative_difference(gpu.values(local, id), host.values(local, id)) <= 1e-11);
      }
}

}  // namespace

TEST_CASE("Every kernel leaves on a GPU what its body leaves on the host") {
  const auto device = gpu(), host = make_host_device();
  Random random(17);
  for (int run = 0; run < 10;) {
    const Experiment e = random_experiment(random);
    if (refusal(Plan(), e) || e.parallelism.pp > 1) continue;
    INFO(describe(e, Plan()));
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan()));
    const ModelData data = random_model_data(e, 3);
    DeviceSettings settings;
    settings.scalar = Stored::Double;
    settings.routing = compute_reference(e, data, rules_of(*schedule)).routing;
    const auto on_gpu = make_device_executor(*device, e, schedule, data, settings);
    const auto on_host = make_device_executor(*host, e, schedule, data, settings);
    on_gpu->run_step(Poison::No);
    on_host->run_step(Poison::No);
    compare_tensors(*schedule, *on_gpu, *on_host);
    ++run;
  }
}

TEST_CASE("Random plans compute on a GPU what the reference does") {
  const auto device = gpu();
  Random random(31);
  int run = 0;
  for (std::uint64_t i = 0; run < 60; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    check_on_device(*device, e, plan, {Stored::Double, true, false, i});
    ++run;
  }
}

TEST_CASE("Gates of a GPU choose experts and slots as the reference does") {
  const auto device = gpu();
  Random random(5);
  int run = 0;
  for (std::uint64_t i = 0; run < 20; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    check_on_device(*device, e, plan, {Stored::Double, false, false, i});
    ++run;
  }
}

TEST_CASE("Shipped systems compute on a GPU what the reference does, in double, float and bf16") {
  const auto device = gpu();
  check_systems_on_device(*device, false);
}

TEST_CASE("A captured step computes what the step does") {
  const auto device = gpu();
  check_systems_on_device(*device, true);
}

TEST_CASE("A hold on a GPU lasts as long as it was told") {
  const auto device = gpu();
  const auto queue = device->make_queue();
  const auto begin = device->make_event(), end = device->make_event();
  const auto moment = device->allocate(8, Place::Device);
  auto* const at = reinterpret_cast<std::int64_t*>(moment->data());
  device->mark(*queue, at);  // loads the kernels
  device->hold(*queue, at, Seconds(0));
  queue->record(*begin);
  device->mark(*queue, at);
  device->hold(*queue, at, Seconds(.002));
  queue->record(*end);
  device->synchronize();
  const double seconds = device->elapsed(*begin, *end).value();
  CHECK(seconds >= .0019);  // clocks of events and kernels may tick apart
  CHECK(seconds < .05);
}
