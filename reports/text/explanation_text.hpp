// SPDX-License-Identifier: Apache-2.0
// An explanation in words: sentences for a terminal, a page and a saved result.
#pragma once
#include <string>
#include <vector>

#include "models/results/explanation.hpp"

namespace dovetail::reports {

// A paragraph each, without line ends.
std::vector<std::string> explanation_text(const Explanation& explanation);

}  // namespace dovetail::reports
