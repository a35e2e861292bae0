// SPDX-License-Identifier: Apache-2.0
// Layers of a checkpoint that mix tokens by linear attention, a state space or a convolution.
#pragma once
#include <vector>

#include "models/files/hf_config.hpp"
#include "models/question/model.hpp"

namespace dovetail {

// Sets recurrence, attention.layers and, where layers have mixers and feed-forward parts apart, layers. The model has
// its layers, hidden size and attention already. Throws InputError for kinds of layers that no model here can say.
void read_recurrence(const HfConfig& config, Model& model);

// For each feed-forward part of layers that are listed one by one (Nemotron-H), whether it has experts; else empty.
std::vector<bool> listed_experts(const HfConfig& config);

}  // namespace dovetail
