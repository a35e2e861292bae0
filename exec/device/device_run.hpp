// SPDX-License-Identifier: Apache-2.0
// The whole of a measured run on GPUs: numerics, op times, samples of the captured step.
#pragma once
#include "exec/device/device_group.hpp"
#include "exec/host/host_run.hpp"

namespace dovetail::exec {

// How a workload's format is stored on a device; fp16 as bf16, which is as long.
Stored stored_as(DType dtype);

// Relative Frobenius: as on the host, and 2e-2 in bf16.
double device_tolerance(Stored scalar, const ComputeRules& rules);

// Without emulate_links all ranks share the device. With it, one rank stands for all: the compute is real, exchanges
// copy as many bytes as arrive and are held for their modelled times. Numerics are checked with all ranks there either
// way. Steps are captured as a graph where that is possible; op times are those of the last step before.
RunResult run_on_device(ComputeDevice& device, const Experiment& experiment,
                        std::shared_ptr<const PricedSchedule> priced, const RunOptions& options);

// On a device for each rank. All processes of the group call it and get the same result. Links are never emulated.
// `cancellation` is that of the group's networks.
RunResult run_on_devices(const DeviceGroup& group, const Experiment& experiment,
                         std::shared_ptr<const PricedSchedule> priced, const RunOptions& options,
                         Cancellation& cancellation);

}  // namespace dovetail::exec
