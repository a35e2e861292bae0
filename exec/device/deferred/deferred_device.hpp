// A stand-in device of host memory that keeps what it is given until somebody waits, and then runs it in a random order
// that queues and events allow. It reports commands that touch the same bytes without an order between them, and
// refuses in captures what CUDA refuses. One thread at a time uses it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/device/deferred/shadow.hpp"
#include "exec/device/device.hpp"

namespace dovetail::exec {

struct DeferredSettings {
  std::uint64_t seed = 1;  // of orders and of how long commands last, 1 ns to 1 us
  // Copies, fills, products and exchanges say what they touch. Kernels are seen where they are compiled with hooks, and
  // by the thread sanitizer, which then does all of the tracing.
  bool trace = true;
  bool log = false;                                      // see commands()
  std::function<void(const deferred::Race&)> tell = {};  // at once, of each race; may be none
};

// Both count from when they are planted, from 0.
struct PlantedFaults {
  std::optional<std::int64_t> ignored_wait;     // of those that queues are given
  std::optional<std::int64_t> failing_command;  // nothing runs from this one on; whoever waits gets a DeviceError
};

// As the host gave them out, or its wait for all of a lane. The next one after a synchronize() begins another log.
struct LoggedCommand {
  deferred::LaneId lane = 0;
  Purpose purpose;
  bool host_waits = false;
  std::int32_t waits_for = 0, records = 0;  // numbers of records, 0: none
  std::vector<deferred::Range> reads, writes;
};

class DeferredDevice : public ComputeDevice {
 public:
  virtual const std::vector<deferred::Race>& races() const = 0;  // at most 1,000
  virtual void forget_races() = 0;
  virtual void plant(const PlantedFaults& faults) = 0;
  virtual std::int64_t waits() const = 0;                        // given to queues so far
  virtual std::int64_t commands_run() const = 0;                 // that did work
  virtual std::optional<deferred::Accessor> failed() const = 0;  // the command at which the device failed
  virtual std::vector<LoggedCommand> commands() const = 0;
  virtual deferred::Range copied_now() const = 0;  // from where the last copy_now() copied
};

std::unique_ptr<DeferredDevice> make_deferred_device(const DeferredSettings& settings = {});

}  // namespace dovetail::exec
