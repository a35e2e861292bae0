// SPDX-License-Identifier: Apache-2.0
// Fields of configurations (YAML, JSON) as arguments of Megatron-LM.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/imports/given_run.hpp"

namespace dovetail::bench {

// One field: a switch that is on or off, or values.
struct ConfigField {
  std::string section;  // the key of the outermost object around it; empty: none
  std::string key;
  std::optional<bool> on = {};
  std::vector<std::string> values = {};
  Location where = {};
};

// The words of "[attn mlp]", "attn,mlp" or "attn mlp"; a text with other brackets is one word.
std::vector<std::string> words_in(std::string_view text);

// Adds the arguments that the fields stand for: under the names of Megatron Bridge too, and switches that turn off what
// is on by default. If sections give one field twice, the
// model's counts, then those of training and gradients.
void add_fields(std::vector<ConfigField> fields, GivenRun& run);

}  // namespace dovetail::bench
