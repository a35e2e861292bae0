// SPDX-License-Identifier: Apache-2.0
// Memory that a layout needs before any schedule is built for it.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail::planners {

// No plan with this ZeRO stage holds less on the fullest stage of the experiment, which is laid out: weights, gradients
// and optimizer states of the mean stage, however the layers are shared out among stages.
Bytes least_state(const Experiment& experiment, int zero);

}  // namespace dovetail::planners
