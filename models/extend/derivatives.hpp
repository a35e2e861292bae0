// SPDX-License-Identifier: Apache-2.0
// Checks the backward pass of a sub-module of the user's own by itself, against central differences.
#pragma once
#include <cstdint>

#include "models/extend/custom_expert.hpp"
#include "models/extend/custom_gate.hpp"

namespace dovetail {

// The largest difference between the gradients that the backward function gives and central differences of the forward
// one, relative to the largest gradient, over `count` random tokens or rows and parameters. The loss is the sum of
// random numbers times the scores or results. A sound smooth function has about 1e-8; one with kinks (ReLU) has more
// where a value lies within 1e-5 of one. Functions that have no gradients at all have 0.
double derivative_error(const CustomGate& gate, const GateSizes& sizes, std::int64_t count, std::uint64_t seed);
double derivative_error(const CustomExpert& expert, const ExpertSizes& sizes, std::int64_t count, std::uint64_t seed);

}  // namespace dovetail
