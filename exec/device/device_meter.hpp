// SPDX-License-Identifier: Apache-2.0
// Measures the cost of operations on one device: one rank, with the kernels and products that its executor uses.
#pragma once
#include <memory>

#include "exec/device/device.hpp"
#include "exec/run/calibrate.hpp"

namespace dovetail::exec {

// Timed by the device's own events around a batch of repetitions, captured as a graph where the device has graphs; what
// is given to it before is warm. Repetitions go from operands to operands, so that the device's cache does not hold
// them. Each probe has a queue of its own. Fp64, fp32, bf16 (fp16 too: as long). No collectives: InternalError. Copies
// to and from the host are of pinned memory, in turns. The device must outlive the meter.
std::unique_ptr<Meter> make_device_meter(ComputeDevice& device);

}  // namespace dovetail::exec
