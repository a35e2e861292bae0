// SPDX-License-Identifier: Apache-2.0
// Rows of tables on a page.
#pragma once
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::reports {

// One row of cells of this kind ("td", "th"). Values are HTML already.
void write_row(std::ostream& out, std::string_view cell, const std::vector<std::string>& values);

}  // namespace dovetail::reports
