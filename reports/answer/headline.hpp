// SPDX-License-Identifier: Apache-2.0
// The question of a report as it was asked, and its answer in one sentence.
#pragma once
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::reports {

std::vector<std::string> question_lines(const Report& report);  // without line ends

// "fastest: dovetail: predicted 1944 ms a step (90 % range 1826 - 2914), 8086 tokens/s a GPU, MFU 18.9 %, 77.6 GiB of
// 80.0 GiB"; which results fit nothing, or how a measured step compares. Empty: nothing can be said.
std::string headline(const Report& report);

}  // namespace dovetail::reports
