// SPDX-License-Identifier: Apache-2.0
// The model that arguments of Megatron-LM describe.
#pragma once
#include <string>

#include "bench/imports/megatron_settings.hpp"
#include "models/question/model.hpp"

namespace dovetail::bench {

// `tensor_ranks` pad the vocabulary. Throws InputError at sizes that are missing or contradict each other.
Model megatron_model(const MegatronSettings& settings, const ImportRequest& request, int tensor_ranks, Unsaid& unsaid);

}  // namespace dovetail::bench
