// SPDX-License-Identifier: Apache-2.0
// Whether two lists of numbers have the same order.
#pragma once
#include <span>

namespace dovetail {

// Spearman's rank correlation; ties share their mean rank. NaN where either side is constant.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace dovetail
