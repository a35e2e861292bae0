// The answer of `tune` for a terminal, at most 120 columns wide.
#pragma once
#include <iosfwd>

#include "models/results/tuning.hpp"

namespace dovetail::reports {

void write_tuning(std::ostream& out, const Tuning& tuning, bool colour);

// "no plan of any layout ...; of 3080 layouts 2664 ...": how far the best may be from the optimum, and why.
std::string proof_line(const Tuning& tuning);

}  // namespace dovetail::reports
