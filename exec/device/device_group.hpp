// SPDX-License-Identifier: Apache-2.0
// Executes a schedule on several devices at once, a rank on each, driven by a thread each.
#pragma once
#include "exec/device/device_executor.hpp"
#include "exec/transport/transport.hpp"

namespace dovetail::exec {

// The ranks of this process: all of a run, or one where each process has one.
struct DeviceGroup {
  // By rank here; made, used and let go by the thread that drives the device, all at once.
  std::function<std::unique_ptr<ComputeDevice>(std::size_t local)> make_device;
  std::function<std::unique_ptr<DeviceNetwork>(std::size_t local)> make_network;
  std::size_t ranks = 1;
  Transport* between_processes = nullptr;  // aligns steps and gathers figures; null: there is one process
  std::string network;                     // what moves the data, as reports name it
};

// As make_device_executor; of `settings` scalar, routing and progress. A failure of one rank cancels the others and is
// the one that is thrown; `cancellation` is that of the networks.
std::unique_ptr<DeviceExecutor> make_group_executor(const DeviceGroup& group, const Experiment& experiment,
                                                    const std::shared_ptr<const Schedule>& schedule,
                                                    const ModelData& data, const DeviceSettings& settings,
                                                    Cancellation& cancellation);

}  // namespace dovetail::exec
