// SPDX-License-Identifier: Apache-2.0
// How a search over layouts went, in one sentence.
#pragma once
#include <string>

#include "models/results/result.hpp"

namespace dovetail::reports {

// "3080 layouts divide everything; 2664 of them hold more ...": how far the best may be from the optimum, and why; or
// why nothing fits. The report has a tuning.
std::string proof_line(const Report& report);

}  // namespace dovetail::reports
