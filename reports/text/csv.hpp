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

std::string csv_text(std::string_view value);         // quoted where it must be
std::string csv_number(std::optional<double> value);  // all its digits

}  // namespace dovetail::reports
