// SPDX-License-Identifier: Apache-2.0
// A stand-in device of host memory that keeps what it is given until somebody waits, and then runs it in a random order
// that queues and events allow. It reports commands that touch the same bytes without an order between them, and
// refuses in captures what CUDA refuses. One thread at a time uses it.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "exec/device/deferred/deferred_settings.hpp"
#include "exec/device/device.hpp"

namespace dovetail::exec {

// Both count from when they are planted, from 0.
struct PlantedFaults {
  std::optional<std::int64_t> ignored_wait;     // of those that queues are given
  std::optional<std::int64_t> failing_command;  // nothing runs from this one on; whoever waits gets a DeviceError
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
