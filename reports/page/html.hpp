// SPDX-License-Identifier: Apache-2.0
// A report as one self-contained HTML page: charts, timelines, tables and all inputs. It refers to nothing
// outside itself, so it works offline and can be mailed.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

void write_html(std::ostream& out, const Report& report);

}  // namespace dovetail::reports
