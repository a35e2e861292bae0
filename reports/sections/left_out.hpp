// SPDX-License-Identifier: Apache-2.0
// The systems that answer nothing, and why.
#pragma once
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::reports {

// A line for each system, or, where there is to be little text, one with all names.
std::vector<std::string> left_out_lines(const std::vector<RefusedSystem>& refused, bool brief);

}  // namespace dovetail::reports
