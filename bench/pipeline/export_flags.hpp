// SPDX-License-Identifier: Apache-2.0
// The best plan of a result as arguments of the framework that the options name, with the step that the framework then
// takes; nothing where they name none.
#pragma once
#include <iosfwd>

#include "bench/cli/options.hpp"
#include "models/results/result.hpp"

namespace dovetail::bench {

// Whether only these are to be printed.
bool only_flags(const Options& options);

// Writes those of the first result. If layouts were searched and the framework does otherwise, a plan that was found
// and is faster with it follows.
void write_export(std::ostream& out, const Options& options, const Report& report);

}  // namespace dovetail::bench
