// SPDX-License-Identifier: Apache-2.0
// The word that a position of a sample has at each depth of multi-token prediction.
#pragma once
#include <cstdint>

#include "exec/step/both.hpp"

namespace dovetail::exec {

// The position `distance` further on in the same sample; after a sample's last word comes its first. Positions count
// over samples of `sequence` words. At depth d, with 0 the model's own output, the row of position i follows from the
// words up to i + d and predicts the word at i + d + 1 (DeepSeek-V3, section 2.2). The loss of a step is the sum over
// all depths of the mean over all its words, each with the weight 1. (DeepSeek-V3 and Megatron-LM give further depths
// a smaller weight, and count no word past the end of a sample.)
DOVETAIL_BOTH inline std::int64_t shifted_position(std::int64_t position, std::int64_t sequence,
                                                   std::int64_t distance) {
  if (distance == 0) return position;  // kernels ask for each word of many rows
  const std::int64_t in_sample = position % sequence;
  return position - in_sample + (in_sample + distance) % sequence;
}

}  // namespace dovetail::exec
