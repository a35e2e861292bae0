// SPDX-License-Identifier: Apache-2.0
// Finds changes that make a plan fit the memory. They are tried one by one, not guessed.
#pragma once
#include <string>
#include <vector>

#include "bench/pipeline/evaluate.hpp"

namespace dovetail::bench {

// One line for each kind of change (restoring, micro-batches, a smaller batch, more nodes, more pipeline stages): the
// smallest change that fits, or the one that brings the plan nearest, with its bytes. Kinds that save nothing are left
// out.
std::vector<std::string> ways_to_fit(const Question& question, const Plan& plan);

}  // namespace dovetail::bench
