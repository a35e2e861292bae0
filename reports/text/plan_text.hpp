// SPDX-License-Identifier: Apache-2.0
// A chosen plan in words, for a terminal.
#pragma once
#include <span>
#include <string>

#include "models/plan/knob_table.hpp"

namespace dovetail::reports {

// The knobs that differ from their defaults, one after the other. `verbose`: one a line, gradient slices listed one by
// one instead of counted, and then the knobs that do not differ.
std::string plan_text(const Plan& plan, bool verbose, std::span<const Knob> table = knobs());

}  // namespace dovetail::reports
