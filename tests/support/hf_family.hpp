// SPDX-License-Identifier: Apache-2.0
// A config.json of made-up sizes, under the names of a family.
#pragma once
#include <nlohmann/json.hpp>

#include "models/base/json/json_file.hpp"

namespace dovetail::test {

// `own`: keys to add or to change.
inline JsonFile family(const nlohmann::json& own) {
  nlohmann::json config{{"num_hidden_layers", 8},   {"hidden_size", 64},        {"num_attention_heads", 8},
                        {"num_key_value_heads", 2}, {"intermediate_size", 256}, {"vocab_size", 1000}};
  config.merge_patch(own);
  return JsonFile::parse(config.dump(), "config.json");
}

}  // namespace dovetail::test
