// SPDX-License-Identifier: Apache-2.0
// Everything that --set takes, in words, for a terminal.
#pragma once
#include <span>
#include <string>

#include "models/plan/knob_table.hpp"

namespace dovetail::bench {

// Each knob of plans with its default, its values and what they mean, class by class; then the rules between knobs.
std::string knobs_text(std::span<const Knob> table = knobs());

// Each key with its values ("workload.attention=flash|eager"), what it is, and its default in brackets.
std::string settings_text();

}  // namespace dovetail::bench
