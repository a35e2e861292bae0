// SPDX-License-Identifier: Apache-2.0
// Models from the config.json that Hugging Face checkpoints carry.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/base/json/json_file.hpp"
#include "models/question/model.hpp"

namespace dovetail {

// Values that the user gives because the config lacks them, or in place of the config's own.
struct ExpertChoice {
  std::optional<int> experts, top_k;
};

struct ImportedModel {
  Model model;
  std::vector<std::string> left_out;      // a sentence for each part that the model cannot say, and for each assumption
  std::vector<std::string> unknown = {};  // keys of the config that may say more, in their order
};

// Reads a config by its structure, whatever family it is of: sizes under the names that families give them, which
// layers have experts, latent or grouped-query attention, and a language model inside one of several kinds of input.
// Facts that only the code of a family tells come from hf_conventions.hpp. A dense model gets `experts` experts of its
// own size (top_k 2 unless given) if they are chosen. Throws InputError at the place of a size that is missing or
// wrong, and of a layer that is neither attention nor a feed-forward part, such as a state-space layer.
ImportedModel import_hf(const JsonFile& config, const std::string& name, const ExpertChoice& choice = {});

// The text of a config.json as JSON: Python writes numbers that JSON has not, such as Infinity, which become null.
std::string without_python_numbers(std::string text);

// The text of a model file, which load_model reads back as the same model.
std::string to_model_file(const Model& model);

}  // namespace dovetail
