// Runs the steps of a schedule on a GPU: one queue for each rank and stream, events between them, ops given out in
// program order by one thread.
#pragma once
#include <memory>
#include <string>

#include "exec/device/device.hpp"
#include "exec/device/device_settings.hpp"
#include "exec/run/rank_values.hpp"
#include "models/schedule/schedule.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::exec {

class DeviceExecutor : public RankValues {
 public:
  // One training step from the initial weights. Throws DeviceError with the op and the rank, or with the ops that were
  // under way, and Cancelled after a cancellation of the network; the device is of no more use then.
  virtual Seconds run_step(Poison poison) = 0;
  // The same, in which the device writes down when each op begins and ends. By op, over all ranks here; emulated: ops
  // that were held.
  virtual Timeline run_stamped() = 0;

  // After a first step: captures it as a graph, with stamps and without, which later steps launch unless tensors are
  // poisoned during the step. Where that is not possible (a schedule in which the host waits, a device without graphs
  // or one that refuses) the reason is returned, and the executor goes on without.
  virtual std::string capture() = 0;

  virtual long overruns() const = 0;               // of ops that were held, so far
  virtual std::string description() const = 0;     // of the device, or of those of this process
  virtual std::int64_t memory_bytes() const = 0;   // of each rank's tensors, the most of any rank
  virtual std::int64_t scratch_bytes() const = 0;  // of all queues
};

// Throws InputError for what a device does not run (require_device_ops). The device must outlive the executor, and be
// in use by the thread that calls it, as must those that call the executor.
std::unique_ptr<DeviceExecutor> make_device_executor(ComputeDevice& device, const Experiment& experiment,
                                                     std::shared_ptr<const Schedule> schedule, const ModelData& data,
                                                     DeviceSettings settings);

}  // namespace dovetail::exec
