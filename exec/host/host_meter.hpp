// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process, with the executor's own kernels and transport.
#pragma once
#include <memory>

#include "exec/run/meter.hpp"

namespace dovetail::exec {

// At most two probes at a time. Fp32, and Fp64 of GEMMs.
std::unique_ptr<Meter> make_host_meter(int ranks);

}  // namespace dovetail::exec
