// SPDX-License-Identifier: Apache-2.0
// A rule about norms that kernels and the reference share.
#pragma once

namespace dovetail::exec {

// A row over the root of its mean square and this: the rms_norm_eps of Mixtral's published configurations.
inline constexpr double norm_epsilon = 1e-5;

}  // namespace dovetail::exec
