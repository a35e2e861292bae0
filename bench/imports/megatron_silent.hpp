// SPDX-License-Identifier: Apache-2.0
// Names of Megatron-LM's arguments that change no step which is modelled here.
#pragma once
#include <span>
#include <string_view>

namespace dovetail::bench {

// In alphabetical order, with underscores.
std::span<const std::string_view> silent_megatron_arguments();

}  // namespace dovetail::bench
