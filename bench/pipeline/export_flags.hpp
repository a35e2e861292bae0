// SPDX-License-Identifier: Apache-2.0
// The best plan of a result as arguments of the framework that the options name, with the step that the framework then
// takes; nothing where they name none.
#pragma once
#include <iosfwd>

#include "bench/cli/options.hpp"
#include "models/results/tuning.hpp"

namespace dovetail::bench {

// Whether only these are to be printed.
bool only_flags(const Options& options);

void write_export(std::ostream& out, const Options& options, const Report& report);  // of the first result

// Writes the best plan and, where the framework does otherwise, a plan that was found and is faster with it.
void write_export(std::ostream& out, const Options& options, const Tuning& tuning);

}  // namespace dovetail::bench
