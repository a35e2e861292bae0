// SPDX-License-Identifier: Apache-2.0
// The layers of a checkpoint: those with experts, and what they have that no model here can say.
#pragma once
#include <string>
#include <vector>

#include "models/files/hf_config.hpp"
#include "models/files/hf_conventions.hpp"
#include "models/question/model.hpp"

namespace dovetail {

// Sets first_dense and moe_every. Throws InputError for layers with experts in an order that these two cannot say.
void read_moe_layers(const HfConfig& config, Model& model);

// Sets the windows of attention: sliding ones, chunks, and as many positions as sparse attention chooses.
void read_windows(const HfConfig& config, const HfConventions& family, Model& model);

// Whether every token of an MoE layer goes through a dense feed-forward part too, with a size of its own (Grok-2,
// Arctic).
bool dense_beside_experts(const HfConfig& config);

// Throws InputError at the key of a layer that is not built: keys and values shared between layers, encoders, layers of
// different sizes.
void refuse_other_layers(const HfConfig& config);

// A sentence for each part of attention and of the whole that is left out of the model.
std::vector<std::string> left_out_of(const HfConfig& config);

}  // namespace dovetail
