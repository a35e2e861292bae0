// SPDX-License-Identifier: Apache-2.0
// The links of a validation grid, whose held times are a multiple of the modelled ones.
#pragma once
#include "models/schedule/kernel_shape.hpp"

namespace dovetail {
struct Calibration;
}

namespace dovetail::bench {

enum class Copies { Slowed, Real };  // between device and host memory: held like links, or really made

// Whether kernels of this kind exchange between GPUs.
bool exchanges(KernelKind kind);

// All exchanges take `slowdown` times as long, at every size.
void slow_links(Calibration& calibration, double slowdown, Copies copies);

}  // namespace dovetail::bench
