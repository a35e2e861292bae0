// The rows of a report as comma-separated values in base units, quoted as in RFC 4180; empty where
// not applicable.
#pragma once
#include <iosfwd>

#include "models/result.hpp"

namespace dovetail::reports {

void write_csv(std::ostream& out, const Report& report);

}  // namespace dovetail::reports
