// SPDX-License-Identifier: Apache-2.0
// The results of a report as comma-separated values in base units; empty where not applicable.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

// A line for each result. Of a search over layouts the first column says whether it is one of the best or a system's;
// of several clusters the first three say which, and what training costs there.
void write_csv(std::ostream& out, const Report& report);

}  // namespace dovetail::reports
