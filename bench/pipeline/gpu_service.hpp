// SPDX-License-Identifier: Apache-2.0
// The GPU of this program: all its commands use one process of dovetail-exec.
#pragma once
#include "exec/launch/gpu_service.hpp"

namespace dovetail::bench {

// Started by its first request. A request must be made while a Writing lives, so that signals wait for the process.
exec::GpuService& gpu_service();

}  // namespace dovetail::bench
