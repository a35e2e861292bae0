// SPDX-License-Identifier: Apache-2.0
// Tables of kernels from measured shapes.
#pragma once
#include <cstddef>
#include <vector>

#include "models/price/kernel_table.hpp"

namespace dovetail {

// A table that holds `keep` of the measured shapes, drawn by their sizes alone, so that the same shapes are drawn on
// every device; of collectives, whose sizes are few, as evenly spread ones, and one that took longer than another of
// more bytes in the same group counts as that one. Its law is fitted to those, with the least mean |log(law /
// measured)|; a launch that no measured kernel is short enough to show is not fitted. Its `error` is that of the
// others. Throws InputError where fewer than 2 shapes are given.
KernelTable fit_table(DType dtype, std::vector<MeasuredKernel> measured, std::size_t keep);

// The error of a table on shapes that it does not hold.
HeldBackError error_on(const KernelTable& table, const std::vector<MeasuredKernel>& held_back);

}  // namespace dovetail
