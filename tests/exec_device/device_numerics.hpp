// SPDX-License-Identifier: Apache-2.0
// Runs a plan's step on a device and compares it with the reference.
#pragma once
#include "exec/device/device_executor.hpp"
#include "exec/device/device_group.hpp"
#include "exec/run/numerics.hpp"
#include "models/plan/plan.hpp"
#include "tests/support/random_plans.hpp"

namespace dovetail::test {

// A legal plan whose messages between stages come as they are sent, which devices ask for.
Plan random_plan_on_device(Random& random, const Experiment& experiment);

// Double: 1e-12 and float: 1e-5, more where messages are compressed; bf16: 2e-2. `preset`: with the reference's
// routing, else by the gates' own choices. `graph`: the step must be one that can be captured,
// unless the host waits in it, and the compared one is the captured one, begun with NaN in all that it must write.
struct DeviceCheck {
  exec::Stored scalar = exec::Stored::Double;
  bool preset = true;
  bool graph = false;
  std::uint64_t seed = 1;
};
void check_on_device(exec::ComputeDevice& device, const Experiment& experiment, const Plan& plan,
                     const DeviceCheck& how);

using MakeDevice = std::function<std::unique_ptr<exec::ComputeDevice>(std::size_t local)>;
inline std::unique_ptr<exec::ComputeDevice> loop_device(std::size_t) {
  return exec::make_loop_device();
}

// The same with a loop device for each rank, and calls of a network between them.
void check_on_devices(const Experiment& experiment, const Plan& plan, const DeviceCheck& how,
                      const MakeDevice& make_device = loop_device);

// All ranks as threads, with a loop device each unless `make_device` says otherwise.
exec::DeviceGroup loop_group(int ranks, const exec::Cancellation& cancellation,
                             const MakeDevice& make_device = loop_device);

// Trains random models of random plans for some steps: losses and weights are the reference's. `make`: an executor in
// double whose gates choose by themselves. `graph` as above.
using MakeExecutor = std::function<std::unique_ptr<exec::DeviceExecutor>(
    const Experiment& experiment, std::shared_ptr<const Schedule>, const exec::ModelData&)>;
void check_trainings(int models, std::uint64_t seed, bool graph, const MakeExecutor& make);

// Each shipped system with a few random experiments, in all three formats.
void check_systems_on_device(exec::ComputeDevice& device, bool graph);

}  // namespace dovetail::test
