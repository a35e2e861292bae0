// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a schedule on a GPU: one queue for each rank and stream, events between them, ops given out in
// program order by one thread.
#pragma once
#include <memory>
#include <vector>

#include "exec/device/device.hpp"
#include "exec/device/device_settings.hpp"
#include "exec/run/executor.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// Steps are captured as graphs, with stamps and without, which later steps launch unless tensors are poisoned during
// the step. A schedule in which the host waits, a device without graphs and one that refuses are not captured. After a
// DeviceError the device is of no more use; Cancelled follows a cancellation of the network.
class DeviceExecutor : public Executor {
 public:
  Timeline run_stamped() final { return stamped_ = stamped_step(); }
  Timeline timeline() final { return stamped_; }
  IdVector<OpId, Seconds> work() final;
  bool captures() const final { return true; }

 protected:
  virtual Timeline stamped_step() = 0;

 private:
  Timeline stamped_;
};

// Throws InputError for what a device does not run (require_device_ops). The device must outlive the executor, and be
// in use by the thread that calls it, as must those that call the executor.
std::unique_ptr<DeviceExecutor> make_device_executor(ComputeDevice& device, const Experiment& experiment,
                                                     std::shared_ptr<const Schedule> schedule, const ModelData& data,
                                                     DeviceSettings settings);

}  // namespace dovetail::exec
