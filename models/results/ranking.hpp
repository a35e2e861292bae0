// SPDX-License-Identifier: Apache-2.0
// The fastest results of a report.
#pragma once
#include <vector>

#include "models/results/result.hpp"

namespace dovetail {

// Whether a step is known to be slower than the best: it takes at least 1 % longer and, where both have ranges, is
// slower in at least 19 of 20 draws of the costs. One draw gives both the same costs.
bool surely_slower(Seconds step, const std::optional<StepRange>& range, Seconds best,
                   const std::optional<StepRange>& of_best);

// The fastest result that fits, among those of the first result's kind; null when none fits.
const SystemResult* fastest(const Report& report);

// With it all that fit and are not known to be slower: they take less than 1 % longer, or, where results have ranges,
// are slower in fewer than 19 of 20 draws of the costs. In the order of the report. Empty when none fits.
std::vector<const SystemResult*> tied_fastest(const Report& report);

}  // namespace dovetail
