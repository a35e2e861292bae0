// SPDX-License-Identifier: Apache-2.0
// Steps on a device that runs them in random orders, given out op by op and captured: they compute what the reference
// does, and no two of their commands touch the same bytes without an order.
#include <catch2/catch.hpp>
#include <mutex>

#include "exec/device/deferred/deferred_device.hpp"
#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Sanitizers watch instead: tracing under them costs most of the time and sees no kernels.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool traces = false;
#else
constexpr bool traces = true;
#endif

void check_no_races(const DeferredDevice& device) {
  std::string first;
  if (!device.races().empty()) first = to_string(device.races().front());
  CHECK(first == "");
}

// All ranks, given out and captured.
void check_in_a_random_order(const Experiment& e, const Plan& plan, std::uint64_t seed) {
  const auto device = make_deferred_device({seed, traces});
  check_on_device(*device, e, plan, {Stored::Double, true, true, seed});
  check_no_races(*device);
}

constexpr Seconds exchange_lasts{1e-5};

// One rank stands for all.
std::unique_ptr<DeviceExecutor> one_rank(ComputeDevice& device, const Experiment& e,
                                         std::shared_ptr<const Schedule> schedule, const Plan& plan) {
  DeviceSettings settings;
  settings.ranks = DeviceRanks::One;
  settings.exchange_durations.assign(schedule->ops.size(), exchange_lasts);
  settings.overrun_tolerance = Seconds(1);
  return make_device_executor(device, e, std::move(schedule), random_model_data(e, 1, plan.micro_batches), settings);
}

// A held op ends as much later as it lasts than what it depends on, whatever came late. An earlier held op ends at its
// deadline, or within the 1 us that a command lasts at most.
void check_held(const Schedule& schedule, const Timeline& t) {
  for (const OpId i : schedule.ops.ids())
    for (OpId before : schedule.dependencies_of(schedule.ops[i]))
      if (t.emulated[i]) CHECK(t.ops[i].finish >= t.ops[before].finish + exchange_lasts - Seconds(1.001e-6));
}

void check_one_rank(const Experiment& e, const Plan& plan, std::uint64_t seed) {
  if (e.workload.gate.batch_prioritised) return;
  const auto device = make_deferred_device({seed, traces});
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto executor = one_rank(*device, e, schedule, plan);
  check_held(*schedule, executor->run_stamped());
  if (executor->capture().empty()) {
    CHECK(executor->run_step(Poison::No) > Seconds(0));
    check_held(*schedule, executor->run_stamped());
  }
  CHECK(executor->overruns() == 0);  // within 1 s
  check_no_races(*device);
}

}  // namespace

TEST_CASE("Random plans compute in random orders what the reference does") {
  Random random(31);
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    INFO(describe(e, plan));
    check_in_a_random_order(e, plan, i);
    check_one_rank(e, plan, i);
  }
}

TEST_CASE("A captured step repeats until a sample is long enough, and its time is the mean") {
  Random random(3);
  Experiment e = random_on_device(random);
  while (e.parallelism.ep < 2 || e.parallelism.pp > 1 || e.workload.gate.batch_prioritised || refusal(Plan(), e))
    e = random_on_device(random);
  const auto device = make_deferred_device({5, traces});
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan()));
  DeviceSettings settings;
  settings.ranks = DeviceRanks::One;
  settings.exchange_durations.assign(schedule->ops.size(), exchange_lasts);
  settings.overrun_tolerance = Seconds(1);
  settings.shortest_sample = Seconds(.01);
  const auto executor = make_device_executor(*device, e, schedule, random_model_data(e, 1), settings);
  const Seconds once = executor->run_step(Poison::No);
  CHECK(executor->steps_per_sample() == 1);  // not captured yet
  REQUIRE(executor->capture() == "");
  executor->run_step(Poison::No);
  const Seconds mean = executor->run_step(Poison::No);
  CHECK(executor->steps_per_sample() > 1);
  // A command lasts at most 1 us of this device's time, at random: steps differ, but not by a factor of two.
  CHECK(mean * executor->steps_per_sample() > Seconds(.005));
  CHECK(mean < 2 * once);
  CHECK(once < 2 * mean);
  check_no_races(*device);
}

TEST_CASE("Shipped systems compute in random orders what the reference does, in double, float and bf16") {
  const auto device = make_deferred_device({17, traces});
  check_systems_on_device(*device, true);
  check_no_races(*device);
}

TEST_CASE("Trainings in random orders, given out and captured, have the losses of the sequential one") {
  const bool graph = GENERATE(false, true);
  const auto device = make_deferred_device({23, traces});
  check_trainings(8, 19, graph,
                  [&](const Experiment& e, std::shared_ptr<const Schedule> schedule, const ModelData& data) {
                    DeviceSettings settings;
                    settings.scalar = Stored::Double;
                    return make_device_executor(*device, e, std::move(schedule), data, std::move(settings));
                  });
  check_no_races(*device);
}

TEST_CASE("Random plans compute on a device for each rank, each in random orders, what the reference does") {
  Random random(41);
  for (std::uint64_t i = 0; i < 40;) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.cluster.gpus() > 8) continue;
    ++i;
    std::mutex mutex;
    std::string first;
    const auto tell = [&](const deferred::Race& race) {
      const std::scoped_lock lock(mutex);
      if (first.empty()) first = to_string(race);
    };
    check_on_devices(e, plan, {Stored::Double, true, true, i}, [&](std::size_t local) {
      return make_deferred_device({8 * i + local, traces, false, tell});
    });
    CHECK(first == "");
  }
}

TEST_CASE("Wherever a device fails, the error names the op that it failed in, given out or captured") {
  Random random(3);
  int named = 0;
  for (int i = 0; i < 80; ++i) {
    const Experiment e = random_on_device(random);
    const Plan plan = random_plan_on_device(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
    const auto device = make_deferred_device({static_cast<std::uint64_t>(i), false});
    const auto executor = one_rank(*device, e, schedule, plan);
    const std::int64_t before = device->commands_run();
    executor->run_stamped();
    const std::int64_t commands = device->commands_run() - before;
    if (i % 2 == 0) executor->capture();
    device->plant({std::nullopt, std::uniform_int_distribution<std::int64_t>(0, commands - 1)(random)});
    std::string told;
    try {
      executor->run_stamped();
    } catch (const DeviceError& error) {
      told = error.what();
    }
    INFO(describe(e, plan));
    CHECK_THAT(told, Catch::Matchers::Contains("failed"));
    const deferred::Accessor failed = device->failed().value();
    if (!failed.purpose.op.exists() || failed.what == "mark") continue;  // between ops
    ++named;
    const Op& op = schedule->ops[failed.purpose.op];
    CHECK_THAT(told, Catch::Matchers::Contains(to_string(op) + " on rank 0"));
  }
  CHECK(named > 20);
}
