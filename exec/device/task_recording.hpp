// SPDX-License-Identifier: Apache-2.0
// Takes down the work of a device's tasks, with the memory that it needs besides tensors.
#pragma once
#include <memory>
#include <vector>

#include "exec/device/channels.hpp"
#include "exec/device/device_memory.hpp"
#include "exec/device/device_tasks.hpp"
#include "exec/device/self_exchange.hpp"
#include "exec/step/op_operands.hpp"

namespace dovetail::exec {

// The ranks on a device, and how they exchange with others. Both last ones are null when all ranks are here.
struct RanksHere {
  const OpSetup& setup;
  const std::vector<int>& ranks;
  const std::vector<std::unique_ptr<DeviceMemory>>& memory;  // by rank here
  const Channels* channels = nullptr;                        // one rank, of which others are on other devices
  const SelfExchanges* self_exchanges = nullptr;             // one rank that stands for all
};

// Memory that recorded work uses as long as it may run.
using WorkMemory = std::vector<std::unique_ptr<Memory>>;
struct RecordedWork {
  WorkMemory scratch;  // by queue
  WorkMemory tables;   // constants
};

// Fills in the work of each task, which computes with tensors of this format: Double, Float or Bf16.
RecordedWork record_tasks(ComputeDevice& device, const Schedule& schedule, const RanksHere& here, Stored scalar,
                          DeviceTasks& tasks);

}  // namespace dovetail::exec
