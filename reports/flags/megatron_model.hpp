// SPDX-License-Identifier: Apache-2.0
// The model of an experiment as arguments of Megatron-LM's pretraining scripts.
#pragma once
#include <string>

#include "models/question/experiment.hpp"

namespace dovetail::reports {

// An array of bash, MODEL_ARGS, of the layers that are trained. Lines of comment inside it say what of the model no
// argument says.
std::string megatron_model_text(const Experiment& experiment);

}  // namespace dovetail::reports
