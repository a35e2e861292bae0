// Kernels that tell the time on the GPU and wait there, so that an op lasts as long as a model says.
#pragma once
#include <cstdint>

namespace dovetail::exec {

// Writes the GPU's clock, in ns. Both throw DeviceError.
void launch_mark(void* stream, std::int64_t* moment);
// One thread that ends `nanoseconds` after *moment, and in any case that long after its own start.
void launch_hold(void* stream, const std::int64_t* moment, std::int64_t nanoseconds);

}  // namespace dovetail::exec
