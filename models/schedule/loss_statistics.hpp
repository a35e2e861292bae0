// SPDX-License-Identifier: Apache-2.0
// Numbers about a row of logits that its loss needs from every rank that has a share of the words.
#pragma once
#include <cstdint>

namespace dovetail {

// The largest logit, the sum of exp(logit - largest), and the right word's logit (0 where another rank has it).
inline constexpr std::int64_t loss_statistics = 3;

}  // namespace dovetail
