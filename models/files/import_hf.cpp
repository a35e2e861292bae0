#include "models/files/import_hf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/files/experiment_json.hpp"
#include "models/files/schema_file.hpp"
#include "models/json/json_reader.hpp"
#include "models/json/json_schema.hpp"

namespace dovetail {
namespace {

enum class ModelType { Mixtral, Qwen3Moe, Gpt2 };
constexpr std::array<std::pair<std::string_view, ModelType>, 3> model_type_names{
    {{"mixtral", ModelType::Mixtral}, {"qwen3_moe", ModelType::Qwen3Moe}, {"gpt2", ModelType::Gpt2}}};

// Checkpoints write null for "the usual".
int integer_or(const JsonReader& json, std::string_view key, int usual) {
  return json.has(key) && !json.at(key).value().is_null() ? json.integer(key, 1) : usual;
}

int usual_head_size(const JsonReader& json, const Model& model) {
  if (model.hidden % model.attention.heads != 0)
    json.fail(fmt::format("{} attention heads do not divide the hidden size {}", model.attention.heads, model.hidden));
  return model.hidden / model.attention.heads;
}

// What mixtral and qwen3_moe share.
Model read_llama_like(const JsonReader& json) {
  Model model;
  model.layers = json.integer("num_hidden_layers", 1);
  model.hidden = json.integer("hidden_size", 1);
  model.attention.heads = json.integer("num_attention_heads", 1);
  model.attention.kv_heads = integer_or(json, "num_key_value_heads", model.attention.heads);
  const int head_size = integer_or(json, "head_dim", 0);
  model.attention.head_size = head_size > 0 ? head_size : usual_head_size(json, model);
  model.top_k = json.integer("num_experts_per_tok", 1);
  model.expert_kind = ExpertKind::Gated;
  model.vocabulary = json.integer("vocab_size", 1);
  return model;
}

Model read_mixtral(const JsonReader& json) {
  Model model = read_llama_like(json);
  model.experts = json.integer("num_local_experts", 1);
  model.expert_hidden = json.integer("intermediate_size", 1);
  return model;
}

Model read_qwen3_moe(const JsonReader& json) {
  Model model = read_llama_like(json);
  model.experts = json.integer("num_experts", 1);
  model.expert_hidden = json.integer("moe_intermediate_size", 1);
  if (integer_or(json, "decoder_sparse_step", 1) != 1)
    json.fail("decoder_sparse_step", "dense layers between sparse ones are not built yet, expected 1");
  if (const auto dense = json.find("mlp_only_layers"); dense && !dense->value().empty())
    dense->fail("dense layers between sparse ones are not built yet, expected an empty array");
  return model;
}

Model read_gpt2(const JsonReader& json, const ExpertChoice& choice) {
  if (!choice.experts) json.fail("gpt2 has no experts, expected their number from you (experts)");
  Model model;
  model.layers = json.integer("n_layer", 1);
  model.hidden = json.integer("n_embd", 1);
  model.attention.heads = model.attention.kv_heads = json.integer("n_head", 1);
  model.attention.head_size = usual_head_size(json, model);
  constexpr int usual_growth = 4, largest = JsonReader::int_max / usual_growth;
  model.expert_hidden = integer_or(json, "n_inner", usual_growth * std::min(model.hidden, largest));
  model.top_k = std::min(2, *choice.experts);
  model.expert_kind = ExpertKind::Ffn;
  model.vocabulary = json.integer("vocab_size", 1);
  return model;
}

std::string source_of(const JsonReader& json, const ExpertChoice& choice) {
  std::string source = fmt::format("Hugging Face config.json of {}", json.string_or("_name_or_path", "a checkpoint"));
  if (choice.experts) source += fmt::format("; {} experts by choice", *choice.experts);
  if (choice.top_k) source += fmt::format("; top {} by choice", *choice.top_k);
  return source;
}

}  // namespace

Model import_hf(const JsonFile& config, const std::string& name, const ExpertChoice& choice) {
  const JsonReader json(config);
  Model model;
  switch (json.enumeration("model_type", model_type_names)) {
    case ModelType::Mixtral:
      model = read_mixtral(json);
      break;
    case ModelType::Qwen3Moe:
      model = read_qwen3_moe(json);
      break;
    case ModelType::Gpt2:
      model = read_gpt2(json, choice);
      break;
  }
  model.name = name;
  model.source = source_of(json, choice);
  model.experts = choice.experts.value_or(model.experts);
  model.top_k = choice.top_k.value_or(model.top_k);
  const JsonFile written = JsonFile::wrap(to_json(model), name + " from " + config.name());
  validate(written, load_schema("model"));
  if (model.top_k > model.experts)
    throw InputError(written.locate("/top_k"),
                     fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
  return model;
}

std::string to_model_file(const Model& model) {
  return to_json(model).dump(2) + "\n";
}

}  // namespace dovetail
