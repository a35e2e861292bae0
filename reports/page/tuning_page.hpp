// SPDX-License-Identifier: Apache-2.0
// The page of what `tune` found. It needs no script.
#pragma once
#include <iosfwd>

#include "models/results/tuning.hpp"

namespace dovetail::reports {

void write_html(std::ostream& out, const Tuning& tuning);
void write_html(std::ostream& out, const TuningCurve& curve);

}  // namespace dovetail::reports
