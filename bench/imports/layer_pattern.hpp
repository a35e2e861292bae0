// SPDX-License-Identifier: Apache-2.0
// The layers that an argument picks: every so many, or a list such as ([0]*3+[1]*58).
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace dovetail::bench {

// The list that an expression of lists of 0 and 1, +, * and parentheses stands for; none where it is something else or
// has more than 10,000 elements.
std::optional<std::vector<bool>> layer_list(std::string_view expression);

}  // namespace dovetail::bench
