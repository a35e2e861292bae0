// SPDX-License-Identifier: Apache-2.0
// The rows of a report as comma-separated values in base units, quoted as in RFC 4180; empty where
// not applicable.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "models/results/result.hpp"

namespace dovetail::reports {

void write_csv(std::ostream& out, const Report& report);

// Quoted where it must be, without control characters, and with an apostrophe first where a spreadsheet would take it
// for a formula.
std::string csv_text(std::string_view value);
std::string csv_number(std::optional<double> value);  // all its digits

}  // namespace dovetail::reports
