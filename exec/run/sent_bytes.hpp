// SPDX-License-Identifier: Apache-2.0
// Bytes that ranks send to others.
#pragma once

namespace dovetail::exec {

// An op's, in the formats of its tensors; and what it would send with room for the whole capacity.
struct SentBytes {
  double sent = 0, padded = 0;
};

}  // namespace dovetail::exec
