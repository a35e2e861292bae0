// SPDX-License-Identifier: Apache-2.0
// A language for training runs: words that a model can learn to predict, without any file of text.
#pragma once
#include <cstdint>

#include "exec/reference/model_data.hpp"

namespace dovetail::exec {

// Each word is followed by one of four words that the seed gives it, with probabilities 1/2, 1/4, 1/8 and 1/8. A model
// that knows the language has a loss of 1.75 ln 2 = 1.21 for each word but the last of a sample, whose next one is its
// first. The four need not differ, so that the true entropy is a little lower.
// Returns the words of a step, which counts from 1, as ModelData::words has them. Each step has samples of its own.
Values language_words(const Experiment& experiment, std::uint64_t seed, int step);

}  // namespace dovetail::exec
