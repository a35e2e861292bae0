// Rules about the numbers of norms and of the loss that kernels and the reference share.
#pragma once
#include <cstdint>

namespace dovetail::exec {

// A row over the root of its mean square and this.
inline constexpr double norm_epsilon = 1e-5;

// The largest logit of a row, the sum of exp(logit - largest), and the right word's logit (0 where another rank has
// it).
inline constexpr std::int64_t loss_statistics = 3;

}  // namespace dovetail::exec
