// A rule about clipped gradients that kernels share.
#pragma once

namespace dovetail::exec {

// Gradients are multiplied by largest / (norm + this), if that is below 1, as Megatron-LM and PyTorch do.
inline constexpr double clip_epsilon = 1e-6;

}  // namespace dovetail::exec
