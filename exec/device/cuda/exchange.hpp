// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU that tell and spend time. All throw DeviceError.
#pragma once
#include <cstddef>

#include "exec/device/hold.hpp"

namespace dovetail::exec {

// Writes the GPU's clock.
void launch_mark(void* stream, std::int64_t* moment);
// Waits, on one thread.
void launch_hold(void* stream, const Hold& hold);
// Its blocks ask for `shared_bytes` of shared memory, so that no other kernel's fit beside them on a multiprocessor.
void launch_exchange(void* stream, const HeldExchange& exchange, std::size_t shared_bytes);
// As much of it as a block can have on the current GPU, which is told that exchanges ask for it.
std::size_t reserve_shared_bytes();

}  // namespace dovetail::exec
