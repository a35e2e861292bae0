// Models from the config.json that Hugging Face checkpoints carry.
#pragma once
#include <optional>
#include <string>

#include "models/base/json/json_file.hpp"
#include "models/question/model.hpp"

namespace dovetail {

// Values that the user gives because the config lacks them, or in place of the config's own.
struct ExpertChoice {
  std::optional<int> experts, top_k;
};

// Model types mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3 (its main model, without multi-token prediction)
// and gpt2, whose dense layers become `experts` experts of the same size (top_k 2 unless given). Throws InputError at
// the place of what is missing, wrong or not built.
Model import_hf(const JsonFile& config, const std::string& name, const ExpertChoice& choice = {});

// The text of a model file, which load_model reads back as the same model.
std::string to_model_file(const Model& model);

}  // namespace dovetail
