// SPDX-License-Identifier: Apache-2.0
// A chosen plan in words, for a terminal.
#pragma once
#include <span>
#include <string>

#include "models/plan/knob_table.hpp"

namespace dovetail::bench {

// The knobs that differ from their defaults, one a line; then, on one wrapped line, those that do not.
// `all_slices`: lists gradient slices one by one instead of counting them.
std::string plan_text(const Plan& plan, bool all_slices, std::span<const Knob> table = knobs());

}  // namespace dovetail::bench
