// SPDX-License-Identifier: Apache-2.0
// Cells of comma-separated values, quoted as in RFC 4180.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace dovetail::reports {

// Quoted where it must be, without control characters, and with an apostrophe first where a spreadsheet would take it
// for a formula.
std::string csv_text(std::string_view value);
std::string csv_number(std::optional<double> value);  // all its digits; empty where it is not finite

}  // namespace dovetail::reports
