// SPDX-License-Identifier: Apache-2.0
// The rule of clipped gradients, which kernels and the reference share.
#pragma once
#include <algorithm>

namespace dovetail::exec {

// Gradients are multiplied by largest / (norm + this), if that is below 1, as Megatron-LM and PyTorch do.
inline constexpr double clip_epsilon = 1e-6;
inline double clip_scale(double norm, double largest) {
  return std::min(1.0, largest / (norm + clip_epsilon));
}

}  // namespace dovetail::exec
