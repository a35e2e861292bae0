// SPDX-License-Identifier: Apache-2.0
// Whether measured times can be of one kernel.
#pragma once
#include <optional>
#include <span>

#include "models/price/kernel_table.hpp"

namespace dovetail {

// Times of one kernel may disagree by this factor. By choice: kernels of libraries that choose among many reach 2.4 for
// products of a few microseconds, and mixed-up kernels 3 to 13.
inline constexpr double most_disagreement = 3;

struct Disagreement {
  std::size_t slower = 0, faster = 0;  // which of the kernels
  double factor = 1;                   // of their times
};

// The largest disagreement between a kernel and a faster one that is as large or larger in every size; nothing up to
// most_disagreement.
std::optional<Disagreement> larger_but_faster(std::span<const MeasuredKernel> kernels);

// The same between a kernel in fp8, `slower`, and that of the same shape in half precision. Narrow products are left
// out, where casting the left factor takes longer than multiplying.
std::optional<Disagreement> dearer_in_fp8(std::span<const MeasuredKernel> fp8, std::span<const MeasuredKernel> half);

}  // namespace dovetail
