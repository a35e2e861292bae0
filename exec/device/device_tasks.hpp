// SPDX-License-Identifier: Apache-2.0
// The ops of a schedule as tasks of one device: which ranks do an op together, on which queues, after which events.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "exec/device/device.hpp"
#include "exec/device/device_settings.hpp"
#include "exec/device/recorder.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// An op on the ranks that do it together: one, or all of a group, whose work the first one's queue gets. Ranks are
// indices among those on the device.
struct DeviceTask {
  OpId op;
  std::vector<std::size_t> members;
  std::vector<std::size_t> queues;               // by member
  std::vector<std::size_t> also;                 // ranks whose ops may depend on it
  std::vector<DeviceWork> work;                  // see record_tasks
  std::vector<std::vector<const Event*>> waits;  // by member: events of other queues
  std::unique_ptr<Event> done;
  std::vector<std::unique_ptr<Event>> arrived;  // by member
};

struct DeviceTasks {
  std::vector<DeviceTask> all;  // in program order
  std::size_t queues = 0;       // one of each rank and stream
  // After which an op is done on a rank; null: it is not done there.
  IdVector<OpId, std::vector<const Event*>> done;
};

// The tasks of `ranks`, without their work. The device must outlive them.
DeviceTasks make_device_tasks(ComputeDevice& device, const Schedule& schedule, std::span<const int> ranks,
                              DeviceRanks which);

}  // namespace dovetail::exec
