// SPDX-License-Identifier: Apache-2.0
// The most that hardware can do in a time: nobody has measured more.
#pragma once
#include <optional>
#include <string>

#include "models/price/calibration.hpp"

namespace dovetail {

// The rate that a kernel of this shape in this time would have ("5e+05 TFLOP/s in bf16, above ..."); nothing where it
// is possible, or where the hardware's rate is not known. Bytes that fit into the caches of a GPU need not come from
// its memory.
std::optional<std::string> beyond_peak(const KernelShape& shape, DType dtype, Seconds time, const Hardware& hardware);

struct CollectiveGroup {
  Collective collective = Collective::None;
  LinkKind link = LinkKind::Inter;
  int ranks = 0;             // 0: not known
  int members_per_node = 0;  // between nodes; 0: not known
};

// The same of a collective of n bytes, as CollectiveCost counts them, by the fewest bytes that any algorithm moves: a
// switch may add up what it passes on. Between nodes a group may use cards of GPUs outside it.
std::optional<std::string> beyond_links(const CollectiveGroup& group, Bytes n, Seconds time, const Hardware& hardware);

}  // namespace dovetail
