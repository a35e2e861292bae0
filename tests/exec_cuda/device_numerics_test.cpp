// The device's program of every op, on a device of host memory: outputs, gradients and drops are the reference's.
#include "tests/exec_cuda/device_numerics.hpp"

#include <catch2/catch.hpp>

#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("Random plans compute on a device what the reference does") {
  const auto device = make_host_device();
  Random random(31);
  int run = 0;
  for (std::uint64_t i = 0; run < 200; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    check_on_device(*device, e, plan, {Stored::Double, true, false, i});
    ++run;
  }
}

TEST_CASE("Gates of a device choose experts and slots as the reference does") {
  const auto device = make_host_device();
  Random random(5);
  int run = 0;
  for (std::uint64_t i = 0; run < 50; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    if (e.workload.gate.batch_prioritised) continue;
    check_on_device(*device, e, plan, {Stored::Double, false, false, i});
    ++run;
  }
}

TEST_CASE("Shipped systems compute on a device what the reference does, in double, float and bf16") {
  const auto device = make_host_device();
  check_systems_on_device(*device, false);
}
