// What only a GPU can show: the same steps there, captured or not, and how long a hold lasts.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "exec/cuda/cuda_check.hpp"
#include "tests/exec_cuda/device_numerics.hpp"
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

}  // namespace

TEST_CASE("Random plans compute on a GPU what the reference does") {
  const auto device = gpu();
  Random random(31);
  int run = 0;
  for (std::uint64_t i = 0; run < 60; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    if (!runs_on_device(e, plan)) continue;
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
    if (!runs_on_device(e, plan) || e.workload.gate.batch_prioritised) continue;
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
