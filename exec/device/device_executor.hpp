// Runs the steps of a schedule on a GPU: one queue for each rank and stream, events between them, ops given out in
// program order by one thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/device.hpp"
#include "exec/device/device_network.hpp"
#include "exec/device/element.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/progress.hpp"
#include "exec/run/rank_values.hpp"
#include "models/schedule/schedule.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::exec {

// Which ranks are on the device. All: every rank of the schedule, so that exchanges are copies and sums between them
// and results are exact. One: rank 0 alone; an exchange copies as many bytes as would arrive and is held to its
// modelled time, so that times are those of one rank of many, and contents are of no use. Own: the network's rank,
// which exchanges with ranks on other devices.
enum class DeviceRanks { All, One, Own };

struct DeviceSettings {
  Stored scalar = Stored::Float;  // Double, Float or Bf16
  DeviceRanks ranks = DeviceRanks::All;
  std::vector<std::vector<Routing>> routing;               // as of the host's executor
  std::vector<std::optional<Seconds>> exchange_durations;  // One: by op; none: not held
  Seconds overrun_tolerance;                               // of those; see Hold
  int exchange_blocks = 1;                                 // One: see HeldExchange
  DeviceNetwork* network = nullptr;                        // Own: of all ranks; must outlive the executor
  std::function<void()> align;   // Own: called when a step is ready to begin; returns when it is everywhere
  Progress* progress = nullptr;  // Own: is told of each op that is waited for, if given
};

class DeviceExecutor : public RankValues {
 public:
  // One training step from the initial weights. Throws DeviceError with the op and the rank, or with the ops that were
  // under way, and Cancelled after a cancellation of the network; the device is of no more use then.
  virtual Seconds run_step(Poison poison) = 0;
  // The same, in which the device writes down when each op begins and ends. By op, over all ranks here; emulated: ops
  // that were held.
  virtual Timeline run_stamped() = 0;

  // After a first step: captures it as a graph, with stamps and without, which later steps launch if they are not
  // poisoned. Where that is not possible (a schedule in which the host waits, a device without graphs or one that
  // refuses) the reason is returned, and the executor goes on without.
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
