// SPDX-License-Identifier: Apache-2.0
// The knobs of plans in words, for a terminal.
#pragma once
#include <span>
#include <string>

#include "models/plan/knob_table.hpp"

namespace dovetail::bench {

// Each knob with its default, its values and what they mean, class by class; then the rules between knobs.
std::string knobs_text(std::span<const Knob> table = knobs());

}  // namespace dovetail::bench
