#include "models/files/import_hf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json/json_reader.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/read_parts.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail {
namespace {

enum class ModelType { Mixtral, Qwen2Moe, Qwen3Moe, Olmoe, DeepseekV2, DeepseekV3, Gpt2 };
constexpr std::array<std::pair<std::string_view, ModelType>, 7> model_type_names{
    {{"mixtral", ModelType::Mixtral},
     {"qwen2_moe", ModelType::Qwen2Moe},
     {"qwen3_moe", ModelType::Qwen3Moe},
     {"olmoe", ModelType::Olmoe},
     {"deepseek_v2", ModelType::DeepseekV2},
     {"deepseek_v3", ModelType::DeepseekV3},
     {"gpt2", ModelType::Gpt2}}};

// Checkpoints write null for "the usual".
bool is_given(const JsonReader& json, std::string_view key) {
  return json.has(key) && !json.at(key).value().is_null();
}

int integer_or(const JsonReader& json, std::string_view key, int usual, int min = 1) {
  return is_given(json, key) ? json.integer(key, min) : usual;
}

int usual_head_size(const JsonReader& json, const Model& model) {
  if (model.hidden % model.attention.heads != 0)
    json.fail(fmt::format("{} attention heads do not divide the hidden size {}", model.attention.heads, model.hidden));
  return model.hidden / model.attention.heads;
}

// The fields that all but gpt2 share.
Model read_common(const JsonReader& json) {
  Model model;
  model.layers = json.integer("num_hidden_layers", 1);
  model.hidden = json.integer("hidden_size", 1);
  model.attention.heads = json.integer("num_attention_heads", 1);
  model.top_k = json.integer("num_experts_per_tok", 1);
  model.expert_kind = ExpertKind::Gated;
  model.vocabulary = json.integer("vocab_size", 1);
  model.tied_embeddings = json.boolean_or("tie_word_embeddings", false);
  return model;
}

Model read_grouped_query(const JsonReader& json) {
  Model model = read_common(json);
  model.attention.kv_heads = integer_or(json, "num_key_value_heads", model.attention.heads);
  const int head_size = integer_or(json, "head_dim", 0);
  model.attention.head_size = head_size > 0 ? head_size : usual_head_size(json, model);
  return model;
}

Model read_mixtral(const JsonReader& json) {
  Model model = read_grouped_query(json);
  model.experts = json.integer("num_local_experts", 1);
  model.expert_hidden = json.integer("intermediate_size", 1);
  model.router.normalise = true;  // always; the config has no key for it
  return model;
}

// Layers without experts by their numbers from 0: the first ones, or none.
int read_first_dense(const JsonReader& layers) {
  int next = 0;
  for (const JsonReader& layer : layers.elements())
    if (layer.integer() != next++) layer.fail(fmt::format("expected {}: dense layers are the first ones", next - 1));
  return next;
}

Model read_qwen(const JsonReader& json, ModelType type) {
  Model model = read_grouped_query(json);
  model.experts = json.integer("num_experts", 1);
  model.expert_hidden = json.integer("moe_intermediate_size", 1);
  model.moe_every = integer_or(json, "decoder_sparse_step", 1);
  if (const auto dense = json.find("mlp_only_layers")) model.first_dense = read_first_dense(*dense);
  if (model.first_dense > 0 || model.moe_every > 1) model.dense_hidden = json.integer("intermediate_size", 1);
  if (type == ModelType::Qwen2Moe) {
    model.shared_experts = {1, json.integer("shared_expert_intermediate_size", 1), true};
    model.biases = Biases::QueryKeyValue;  // always; the configs of today have no key for it
  } else {
    model.attention.qk_norm = QkNorm::Head;
  }
  model.router.normalise = json.boolean_or("norm_topk_prob", false);
  return model;
}

Model read_olmoe(const JsonReader& json) {
  Model model = read_grouped_query(json);
  model.experts = json.integer("num_experts", 1);
  model.expert_hidden = json.integer("intermediate_size", 1);
  model.attention.qk_norm = QkNorm::Width;
  model.router.normalise = json.boolean_or("norm_topk_prob", false);
  return model;
}

Router read_deepseek_router(const JsonReader& json, ModelType type) {
  const bool v3 = type == ModelType::DeepseekV3;
  Router router;
  router.scoring = json.enumeration_or("scoring_func", scoring_names, v3 ? Scoring::Sigmoid : Scoring::Softmax);
  const std::string method = json.string_or("topk_method", v3 ? "noaux_tc" : "greedy");
  if (method != "greedy") {
    router.groups = integer_or(json, "n_group", 1);
    router.top_groups = integer_or(json, "topk_group", router.groups);
  }
  router.correction_bias = method == "noaux_tc";
  router.scale = json.number_or("routed_scaling_factor", 1);
  router.normalise = json.boolean_or("norm_topk_prob", v3);
  return router;
}

Model read_deepseek(const JsonReader& json, ModelType type) {
  Model model = read_common(json);
  Attention& a = model.attention;
  a.kind = AttentionKind::Latent;
  a.kv_heads = a.heads;
  a.q_rank = integer_or(json, "q_lora_rank", 0);
  a.kv_rank = json.integer("kv_lora_rank", 1);
  a.nope_size = json.integer("qk_nope_head_dim", 1, most_head_size);
  a.rope_size = json.integer("qk_rope_head_dim", 0, most_head_size);
  a.value_size = json.integer("v_head_dim", 1, most_head_size);
  a.head_size = a.nope_size + a.rope_size;
  model.experts = json.integer("n_routed_experts", 1);
  model.expert_hidden = json.integer("moe_intermediate_size", 1);
  if (const int shared = integer_or(json, "n_shared_experts", 0, 0); shared > 0)
    model.shared_experts = {shared, model.expert_hidden, false};
  model.first_dense = integer_or(json, "first_k_dense_replace", 0, 0);
  if (model.first_dense > 0) model.dense_hidden = json.integer("intermediate_size", 1);
  model.mtp_layers = integer_or(json, "num_nextn_predict_layers", 0, 0);
  if (integer_or(json, "moe_layer_freq", 1) != 1)
    json.fail("moe_layer_freq", "other steps than 1 are not built yet, expected 1");
  model.router = read_deepseek_router(json, type);
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
  model.biases = Biases::All;
  model.norms = NormKind::Layer;
  model.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  model.learned_positions = integer_or(json, "n_positions", 0, 0);
  model.sequence = model.learned_positions;
  return model;
}

std::string source_of(const JsonReader& json, const ExpertChoice& choice) {
  std::string source = fmt::format("Hugging Face config.json of {}", json.string_or("_name_or_path", "a checkpoint"));
  if (choice.experts) source += fmt::format("; {} experts by choice", *choice.experts);
  if (choice.top_k) source += fmt::format("; top {} by choice", *choice.top_k);
  return source;
}

Model read_config(const JsonReader& json, const ExpertChoice& choice) {
  const ModelType type = json.enumeration("model_type", model_type_names);
  switch (type) {
    case ModelType::Mixtral:
      return read_mixtral(json);
    case ModelType::Qwen2Moe:
    case ModelType::Qwen3Moe:
      return read_qwen(json, type);
    case ModelType::Olmoe:
      return read_olmoe(json);
    case ModelType::DeepseekV2:
    case ModelType::DeepseekV3:
      return read_deepseek(json, type);
    case ModelType::Gpt2:
      return read_gpt2(json, choice);
  }
  throw InternalError("model type");
}

}  // namespace

Model import_hf(const JsonFile& config, const std::string& name, const ExpertChoice& choice) {
  const JsonReader json(config);
  Model model = read_config(json, choice);
  model.name = name;
  model.source = source_of(json, choice);
  model.experts = choice.experts.value_or(model.experts);
  model.top_k = choice.top_k.value_or(model.top_k);
  const JsonFile written = JsonFile::wrap(to_json(model), name + " from " + config.name());
  shipped_schema("model").validate(written);
  if (model.dense())
    throw InputError(written.locate("/experts"),
                     "0, expected at least 1: checkpoints without experts are not imported yet");
  if (model.top_k > model.experts)
    throw InputError(written.locate("/top_k"),
                     fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
  return model;
}

std::string to_model_file(const Model& model) {
  return to_json(model).dump(2) + "\n";
}

}  // namespace dovetail
