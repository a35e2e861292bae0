// SPDX-License-Identifier: Apache-2.0
#include "models/files/import_hf.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "models/base/json/json_reader.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/hf_config.hpp"
#include "models/files/hf_conventions.hpp"
#include "models/files/hf_layers.hpp"
#include "models/files/hf_recurrence.hpp"
#include "models/files/read_parts.hpp"
#include "models/files/schema_file.hpp"

namespace dovetail {
namespace {

int usual_head_size(const HfConfig& config, const Model& model) {
  if (model.hidden % model.attention.heads != 0)
    config.text().fail(
        fmt::format("{} attention heads do not divide the hidden size {}", model.attention.heads, model.hidden));
  return model.hidden / model.attention.heads;
}

void read_grouped_query(const HfConfig& config, const HfConventions& family, Model& model) {
  Attention& a = model.attention;
  a.kv_heads = config.integer_or(
      {"num_key_value_heads", "attn_config/kv_n_heads", "num_kv_heads", "num_attention_groups"}, a.heads);
  const int head_size = config.integer_or({"head_dim", "attention_head_dim"}, 0);
  a.head_size = head_size > 0 ? head_size : usual_head_size(config, model);
  a.value_size = config.integer_or({"v_head_dim"}, 0, 0);
  if (a.value_size == a.head_size) a.value_size = 0;
  a.qk_norm = family.qk_norm;
  a.sinks = family.sinks;
  a.gate = config.boolean_or({"attn_output_gate", "attention_output_gate"}, false) ? OutputGate::Element
           : config.boolean_or({"use_head_wise_attn_gate"}, false)                 ? OutputGate::Head
                                                                                   : family.output_gate;
  if (config.boolean_or({"use_qk_norm", "qk_layernorm"}, false)) a.qk_norm = family.use_qk_norm;
  model.biases = family.biases;
  if (model.biases == Biases::None && config.boolean_or({"attention_bias"}, false))
    model.biases = family.attention_bias;
}

void read_latent(const HfConfig& config, Model& model) {
  Attention& a = model.attention;
  a.kind = AttentionKind::Latent;
  a.kv_heads = a.heads;
  a.q_rank = config.integer_or({"q_lora_rank"}, 0);
  a.kv_rank = config.integer({"kv_lora_rank"}, 1);
  a.nope_size = config.integer({"qk_nope_head_dim"}, 1, most_head_size);
  a.rope_size = config.integer({"qk_rope_head_dim"}, 0, most_head_size);
  a.value_size = config.integer({"v_head_dim"}, 1, most_head_size);
  a.head_size = a.nope_size + a.rope_size;
  for (const std::string_view repeated : {"num_key_value_heads", "head_dim", "qk_head_dim"}) config.given({repeated});
  if (config.boolean_or({"mla_use_output_gate"}, false)) a.gate = OutputGate::Element;
}

int dense_hidden(const HfConfig& config, const Model& model) {
  constexpr int usual_growth = 4, largest = JsonReader::int_max / usual_growth;  // of GPT-2
  if (config.given({"n_embd"})) return config.integer_or({"n_inner"}, usual_growth * std::min(model.hidden, largest));
  return config.integer({"dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size",
                         "ff_intermediate_size"},
                        1);
}

Router read_router(const HfConfig& config, const HfConventions& family) {
  Router router;
  router.scoring = family.scoring;
  if (const auto scoring = config.find({"scoring_func", "moe_router_activation_func"}))
    router.scoring = scoring->enumeration(scoring_names);
  const auto named = config.find({"topk_method"});
  const std::string method = named ? named->string() : family.correction_bias ? "noaux_tc" : "greedy";
  if (method != "greedy") {
    router.groups = config.integer_or({"n_group", "num_expert_group"}, 1);
    router.top_groups = config.integer_or({"topk_group"}, router.groups);
  }
  router.correction_bias =
      method == "noaux_tc" ||
      config.boolean_or({"use_routing_bias", "moe_use_aux_free", "use_moe_router_bias", "use_expert_bias"}, false);
  router.scale = config.number_or({"routed_scaling_factor", "moe_router_scaling_factor"}, 1);
  router.normalise = config.boolean_or({"norm_topk_prob", "moe_renormalize", "ffn_config/moe_normalize_expert_weights"},
                                       family.normalise);
  return router;
}

SharedExpertSizes read_shared(const HfConfig& config, const HfConventions& family, const Model& model) {
  if (dense_beside_experts(config))  // Arctic's is as wide as the model
    return {1, config.given({"parallel_attn_mlp_res"}) ? model.hidden : config.integer({"intermediate_size"}, 1),
            false};
  config.given({"n_shared_experts"});  // one, where it has a size of its own
  if (const int hidden = config.integer_or({"shared_expert_intermediate_size", "shared_intermediate_size",
                                            "share_expert_dim", "moe_shared_expert_intermediate_size"},
                                           0, 0);
      hidden > 0)
    return {1, hidden, family.shared_gate};
  const int count =
      config.integer_or({"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"},
                        family.shared_experts, 0);
  return count > 0 ? SharedExpertSizes{count, model.expert_hidden, false} : SharedExpertSizes{};
}

// Experts but for their number.
void read_experts(const HfConfig& config, const HfConventions& family, Model& model) {
  model.top_k = config.integer({"num_experts_per_tok", "moe_topk", "moe_k", "ffn_config/moe_top_k",
                                "num_experts_per_token", "moe_top_k", "top_k_experts"},
                               1);
  model.expert_hidden =
      family.expert_size
          ? config.integer({"moe_intermediate_size"}, 1)
          : config.integer({"moe_intermediate_size", "ffn_config/ffn_hidden_size", "intermediate_size"}, 1);
  model.expert_input = config.integer_or({"moe_latent_size", "routed_expert_hidden_size"}, 0, 0);
  read_moe_layers(config, model);
  if (model.first_dense > 0 || model.moe_every > 1) model.dense_hidden = dense_hidden(config, model);
  model.shared_experts = read_shared(config, family, model);
  model.router = read_router(config, family);
  model.mtp_layers = config.integer_or({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0, 0);
}

// Without experts, or with as many as are chosen in the place of each feed-forward part.
void read_dense(const HfConfig& config, const ExpertChoice& choice, Model& model) {
  const int hidden = dense_hidden(config, model);
  if (choice.experts.value_or(0) == 0) {
    model.first_dense = model.layers;
    model.dense_hidden = hidden;
    return;
  }
  model.expert_hidden = hidden;
  model.top_k = std::min(2, *choice.experts);
}

Model read_config(const HfConfig& config, const HfConventions& family, const ExpertChoice& choice) {
  Model model;
  constexpr int most_layers = 10'000;  // far above any model; each layer is looked at
  if (listed_experts(config).empty())  // else that list is of the layers
    model.layers = config.integer({"num_hidden_layers", "n_layers", "n_layer", "num_layers"}, 1, most_layers);
  model.hidden = config.integer({"hidden_size", "d_model", "n_embd"}, 1);
  model.attention.heads = config.integer({"num_attention_heads", "n_heads", "n_head"}, 1);
  model.vocabulary = config.integer({"vocab_size"}, 1);
  model.expert_kind = family.kind;
  model.norms = family.norms;
  model.tied_embeddings = config.boolean_or({"tie_word_embeddings"}, family.tied_embeddings);
  refuse_other_layers(config);
  if (config.given({"kv_lora_rank"}))
    read_latent(config, model);
  else
    read_grouped_query(config, family, model);
  read_recurrence(config, model);
  read_windows(config, family, model);
  if (config.given({"n_positions"})) model.sequence = model.learned_positions = config.integer({"n_positions"}, 0);
  model.experts = config.integer_or(
      {"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts", "ffn_config/moe_num_experts"}, 0, 0);
  model.dropless = !model.dense();  // as checkpoints are trained, or trained on, today
  if (!model.dense())
    read_experts(config, family, model);
  else
    read_dense(config, choice, model);
  return model;
}

std::string source_of(const JsonFile& config, const ExpertChoice& choice) {
  std::string source =
      fmt::format("Hugging Face config.json of {}", JsonReader(config).string_or("_name_or_path", "a checkpoint"));
  if (choice.experts) source += fmt::format("; {} experts by choice", *choice.experts);
  if (choice.top_k) source += fmt::format("; top {} by choice", *choice.top_k);
  return source;
}

void require_whole(const Model& model, const JsonFile& config) {
  const JsonFile written = JsonFile::wrap(to_json(model), model.name + " from " + config.name());
  shipped_schema("model").validate(written);
  if (model.dense() && model.expert_hidden > 0)
    throw InputError(written.locate("/experts"), "0, expected at least 1: the checkpoint has experts");
  if (!model.dense() && model.top_k > model.experts)
    throw InputError(written.locate("/top_k"),
                     fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
}

std::string assumed(const HfConfig& config, const std::string& type, const Model& model) {
  const bool own_size = config.given({"moe_intermediate_size", "ffn_config/ffn_hidden_size"});
  return fmt::format(
      "what the code of {} does and its config does not say: assumed are gated experts{} and RMS norms, and no biases",
      type.empty() ? "this family" : type,
      model.dense() || own_size ? "" : fmt::format(" of intermediate_size {}", model.expert_hidden));
}

}  // namespace

ImportedModel import_hf(const JsonFile& file, const std::string& name, const ExpertChoice& choice) {
  const HfConfig config(file);
  const std::string type = config.model_type();
  const HfConventions* known = find_conventions(type);
  ImportedModel imported{read_config(config, known != nullptr ? *known : HfConventions{}, choice), left_out_of(config)};
  imported.unknown = config.unknown();
  if (known == nullptr)
    imported.left_out.push_back(assumed(config, type, imported.model));
  else if (!known->left_out.empty())
    imported.left_out.emplace_back(known->left_out);
  Model& model = imported.model;
  model.name = name;
  model.source = source_of(file, choice);
  if (!imported.left_out.empty()) model.source += fmt::format("; left out: {}", fmt::join(imported.left_out, "; "));
  model.experts = choice.experts.value_or(model.experts);
  if (model.dense() && model.expert_hidden == 0 && choice.top_k)
    throw InputError(
        fmt::format("{}: {} experts of a token chosen, but the checkpoint has none; expected a number of "
                    "experts too",
                    file.name(), *choice.top_k));
  model.top_k = choice.top_k.value_or(model.top_k);
  require_whole(model, file);
  return imported;
}

std::string without_python_numbers(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> numbers{
      {{"-Infinity", "null     "}, {"Infinity", "null    "}, {"NaN", "null"}}};
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
      continue;
    }
    if (text[at] == '"') quoted = !quoted;
    if (quoted) continue;
    for (const auto& [number, json] : numbers)
      if (text.compare(at, number.size(), number) == 0) text.replace(at, number.size(), json);
  }
  return text;
}

std::string to_model_file(const Model& model) {
  return to_json(model).dump(2) + "\n";
}

}  // namespace dovetail
