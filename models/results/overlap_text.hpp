// SPDX-License-Identifier: Apache-2.0
// How results say what ops that overlap cost each other.
#pragma once
#include <string>

#include "models/question/experiment.hpp"

namespace dovetail {

// "interfering, 5 assumed factors", "ideal" or "ideal: the calibration has none". A factor is the pair of an entry.
std::string describe_overlap(const Experiment& experiment);

}  // namespace dovetail
