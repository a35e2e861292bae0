// SPDX-License-Identifier: Apache-2.0
// The results of a report as comma-separated values in base units; empty where not applicable.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

// Writes a line for each result. After a search over layouts the first column says whether it is one of the best or a
// system's; with several clusters the first three say which, and what training costs there.
void write_csv(std::ostream& out, const Report& report);

}  // namespace dovetail::reports
