// SPDX-License-Identifier: Apache-2.0
// Whether pairs of micro-batches pay for the best plan, and why, in words.
#pragma once
#include <string>

#include "models/results/explanation.hpp"

namespace dovetail::reports {

// A paragraph, or nothing where micro-batches have no exchanges.
std::string pairs_text(const Explanation& explanation);

}  // namespace dovetail::reports
