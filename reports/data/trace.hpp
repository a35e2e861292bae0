// SPDX-License-Identifier: Apache-2.0
// A report's timelines in Chrome's trace event format, for Perfetto (ui.perfetto.dev) and chrome://tracing.
#pragma once
#include <iosfwd>

#include "models/results/result.hpp"

namespace dovetail::reports {

// One process per result, one thread per stream, one complete event per op (microseconds, rounded to the
// nanosecond so that neighbours never overlap), arrows for dependencies between streams. Written as it goes:
// nothing of the size of the trace is held in memory. Results without a schedule are left out.
void write_trace(std::ostream& out, const Report& report);

}  // namespace dovetail::reports
