// SPDX-License-Identifier: Apache-2.0
// The main job's experiment, as users load it, with the number of layers a benchmark asks for.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail::bench {

Experiment testbed_b(int layers = 1, Overlap overlap = Overlap::Ideal);

// The same model on H100s, whose kernels are priced by their shapes.
Experiment h100s(int layers = 1, Overlap overlap = Overlap::Interfering);

}  // namespace dovetail::bench
