// SPDX-License-Identifier: Apache-2.0
#include "models/files/hf_layers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/base/names.hpp"
#include "models/files/hf_recurrence.hpp"

namespace dovetail {
namespace {

// By layer, from 0.
using LayerFlags = std::vector<bool>;

void keep_where(LayerFlags& layers, auto&& holds) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = layers[i] && holds(static_cast<int>(i));
}

std::vector<int> listed(const JsonReader& list) {
  std::vector<int> numbers;
  for (const JsonReader& each : list.elements()) numbers.push_back(each.integer());
  return numbers;
}

// DeepSeek: every n-th from 0 on. Others: 1 for each layer with experts.
void keep_frequent(const JsonReader& frequency, LayerFlags& layers) {
  if (!frequency.value().is_array()) {
    const int every = frequency.integer(1);
    return keep_where(layers, [&](int layer) { return layer % every == 0; });
  }
  const std::vector<int> flags = listed(frequency);
  if (flags.size() != layers.size())
    frequency.fail(fmt::format("{} flags, expected one for each of the {} layers", flags.size(), layers.size()));
  keep_where(layers, [&](int layer) { return flags[static_cast<std::size_t>(layer)] != 0; });
}

LayerFlags layers_with_experts(const HfConfig& config, int count) {
  if (LayerFlags listed = listed_experts(config); !listed.empty()) return listed;
  LayerFlags layers(static_cast<std::size_t>(count), true);
  const auto in = [](const std::vector<int>& numbers, int layer) { return std::ranges::count(numbers, layer) > 0; };
  if (const auto list = config.find({"moe_layers"})) {
    const std::vector<int> numbers = listed(*list);
    keep_where(layers, [&](int layer) { return in(numbers, layer); });
  } else {
    const int every = config.integer_or({"interleave_moe_layer_step"}, 1);
    keep_where(layers, [&](int layer) { return (layer + 1) % every == 0; });
  }
  if (const auto list = config.find({"mlp_only_layers"})) {
    const std::vector<int> numbers = listed(*list);
    keep_where(layers, [&](int layer) { return !in(numbers, layer); });
  }
  if (const auto frequency = config.find({"moe_layer_freq", "moe_layer_frequency"})) keep_frequent(*frequency, layers);
  const int first = config.integer_or({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"}, 0, 0);
  const int last = config.integer_or({"moe_layer_end_index"}, -1, -1);
  const int every = config.integer_or({"decoder_sparse_step", "moe_layer_interval"}, 1);
  keep_where(layers,
             [&](int layer) { return layer >= first && (last < 0 || layer <= last) && (layer + 1) % every == 0; });
  const int period = config.integer_or({"expert_layer_period"}, 1),
            offset = config.integer_or({"expert_layer_offset"}, 0, 0);
  keep_where(layers, [&](int layer) { return layer % period == offset % period; });
  return layers;
}

struct Unbuilt {
  std::string_view key, why;
};
constexpr std::array unbuilt{
    Unbuilt{"ssm_cfg", "a model of state spaces alone is not built: some layers need attention"},
    Unbuilt{"use_cla", "layers that share keys and values are not built"},
    Unbuilt{"num_kv_shared_layers", "layers that share keys and values are not built"},
    Unbuilt{"is_encoder_decoder", "an encoder is not built, only layers of a decoder"},
    Unbuilt{"block_configs", "layers that differ from each other are not built"},
    Unbuilt{"o_lora_rank", "outputs of attention through a low rank, and positions that are compressed, are not built"},
    Unbuilt{"hidden_size_per_layer_input", "embeddings of each layer are not built"},
    Unbuilt{"altup_num_inputs", "layers with several inputs are not built"},
    Unbuilt{"share_q_dim", "queries that heads share are not built"},
    Unbuilt{"zero_expert_num", "experts that compute nothing are not built"},
};

bool is_set(const JsonReader& json) {
  const nlohmann::json& value = json.value();
  return !(value.is_boolean() && !value.get<bool>()) && !(value.is_number() && value.get<double>() == 0);
}

int count_of(const HfConfig& config, std::string_view kind) {
  const auto types = config.find({"layer_types"});
  if (!types) return -1;
  int count = 0;
  for (const JsonReader& each : types->elements()) count += each.string() == kind ? 1 : 0;
  return count;
}

// Llama 4 turns positions in the layers that see chunks alone: the others are named, or every fourth one.
int layers_with_chunks(const HfConfig& config, int layers) {
  int count = 0;
  const auto turned = config.find({"no_rope_layers"});
  if (turned && !turned->elements().empty())
    for (const JsonReader& each : turned->elements()) count += each.integer();
  else
    count = layers - layers / config.integer_or({"no_rope_layer_interval"}, 4, 1);
  return count;
}

// All but every n-th layer (Gemma 3), n of the family where no key says it (Gemma 2), or those from a layer on (Qwen).
int layers_with_windows(const HfConfig& config, const HfConventions& family, int layers) {
  if (const auto pattern = config.find({"sliding_window_pattern"}); pattern && pattern->value().is_string()) {
    const std::string kinds = pattern->string();  // EXAONE: "LLLG" over and over, L with a window
    const auto size = static_cast<int>(kinds.size());
    int windows = 0;
    for (int layer = 0; layer < layers && size > 0; ++layer)
      windows += kinds[static_cast<std::size_t>(layer % size)] == 'L' ? 1 : 0;
    return windows;
  }
  const int every = config.integer_or({"sliding_window_pattern"}, family.full_attention_every, 0);
  const int first = config.integer_or({"max_window_layers"}, 0, 0);
  if (const auto pattern = config.find({"hybrid_layer_pattern"})) {  // MiMo: 1 for each layer with a window
    const std::vector<int> flags = listed(*pattern);
    return static_cast<int>(std::ranges::count(flags, 1));
  }
  if (every > 0) return layers - layers / every;
  return config.given({"use_sliding_window"}) ? layers - std::min(layers, first) : layers;
}

// In `layers` of them, unless the config lists its layers.
void set_windows(const HfConfig& config, Windows windows, const JsonReader& size, int layers, Model& model) {
  constexpr Names<Windows, 3> types{{{"sliding_attention", Windows::Sliding},
                                     {"chunked_attention", Windows::Chunks},
                                     {"sparse_attention", Windows::Chosen}}};
  if (const int listed = count_of(config, name_in(types, windows)); listed >= 0) layers = listed;
  if (layers == 0) return;
  model.attention.window = size.integer(1);
  model.attention.windowed_layers = std::min(layers, model.attention_layers());
  model.attention.windows = windows;
}

// MiniMax-M3: an index chooses whole blocks of positions, in layers that are marked by 1.
void set_chosen_blocks(const JsonReader& sparse, Model& model) {
  if (sparse.has("use_sparse_attention") && !sparse.at("use_sparse_attention").boolean()) return;
  Attention& a = model.attention;
  constexpr int most = 10'000;  // so that their product is a number of positions
  a.window = sparse.integer("sparse_topk_blocks", 1, most) * sparse.integer("sparse_block_size", 1, most);
  a.windows = Windows::Chosen;
  a.index = {sparse.integer("sparse_num_index_heads", 1), sparse.integer("sparse_index_dim", 1)};
  a.windowed_layers = model.attention_layers();
  if (sparse.has("sparse_attention_freq"))
    a.windowed_layers = static_cast<int>(std::ranges::count(listed(sparse.at("sparse_attention_freq")), 1));
  a.index.layers = a.windowed_layers == model.attention_layers() ? 0 : a.windowed_layers;
}

// MiMo and Step give the heads of layers with windows by keys of their own.
void set_windowed_heads(const HfConfig& config, Attention& a) {
  const HeadSizes whole{a.heads, a.kv_heads, a.head_size, a.value_size};
  HeadSizes windowed{
      config.integer_or({"swa_num_attention_heads", "attention_other_setting/num_attention_heads"}, a.heads),
      config.integer_or({"swa_num_key_value_heads", "attention_other_setting/num_attention_groups"}, a.kv_heads),
      config.integer_or({"swa_head_dim", "attention_other_setting/head_dim"}, a.head_size),
      config.integer_or({"swa_v_head_dim"}, a.value_size, 0)};
  if (windowed.value_size == windowed.head_size) windowed.value_size = 0;
  if (a.windowed_layers > 0 && windowed != whole) a.windowed = windowed;
  const auto global = config.find({"global_head_dim"});
  if (!global) return;
  if (a.windowed_layers == 0) global->fail("given, but no layer has a window");
  a.windowed = whole;  // Gemma 4 gives those of the others
  a.head_size = global->integer(1);
  a.kv_heads = config.integer_or({"num_global_key_value_heads"}, a.kv_heads);
  a.shared_values = config.boolean_or({"attention_k_eq_v"}, false);
}

}  // namespace

void read_windows(const HfConfig& config, const HfConventions& family, Model& model) {
  const int sliding = layers_with_windows(config, family, model.layers);
  if (const auto window = config.find({"sliding_window"}); window && config.boolean_or({"use_sliding_window"}, true))
    set_windows(config, Windows::Sliding, *window, sliding, model);
  set_windowed_heads(config, model.attention);
  if (const auto chunk = config.find({"attention_chunk_size"}); chunk && !config.given({"hybrid_layer_pattern"}))
    set_windows(config, Windows::Chunks, *chunk, layers_with_chunks(config, model.layers), model);
  if (const auto top = config.find({"index_topk"})) {
    set_windows(config, Windows::Chosen, *top, model.layers, model);
    model.attention.index = {config.integer({"index_n_heads"}, 1), config.integer({"index_head_dim"}, 1)};
    if (const auto types = config.find({"indexer_types"}))  // GLM-5.2: of others a layer is "shared"
      for (const JsonReader& each : types->elements()) model.attention.index.layers += each.string() == "full" ? 1 : 0;
  }
  if (const auto sparse = config.find({"sparse_attention_config"})) set_chosen_blocks(*sparse, model);
}

void read_moe_layers(const HfConfig& config, Model& model) {
  const LayerFlags moe = layers_with_experts(config, model.layers);
  const auto first = std::ranges::find(moe, true);
  if (first == moe.end()) config.text().fail("no layer has experts, though their number is given");
  const auto next = std::find(first + 1, moe.end(), true);
  model.moe_every = static_cast<int>(next == moe.end() ? first - moe.begin() + 1 : next - first);
  for (model.first_dense = 0; model.first_dense <= first - moe.begin(); ++model.first_dense) {
    bool same = true;
    for (int layer = 0; layer < model.layers; ++layer)
      same = same && model.is_moe(layer) == moe[static_cast<std::size_t>(layer)];
    if (same) return;
  }
  std::vector<int> numbers;
  for (int layer = 0; layer < model.layers && numbers.size() < 5; ++layer)
    if (moe[static_cast<std::size_t>(layer)]) numbers.push_back(layer);
  config.text().fail(
      fmt::format("experts in layers {}, ... (from 0): dense layers must be the first ones, or every "
                  "n-th layer (from 1) have experts",
                  fmt::join(numbers, ", ")));
}

void refuse_other_layers(const HfConfig& config) {
  if (config.boolean_or({"use_residual"}, false) && !config.boolean_or({"parallel_attn_mlp_res"}, false))
    config.at({"use_residual"}).fail("experts beside a dense part are not built here");
  for (const auto& [key, why] : unbuilt)
    if (const auto found = config.find({key}); found && is_set(*found)) found->fail(why);
}

bool dense_beside_experts(const HfConfig& config) {
  return config.boolean_or({"residual_moe", "enable_moe_block"}, false) ||
         config.boolean_or({"parallel_attn_mlp_res"}, false);
}

std::vector<std::string> left_out_of(const HfConfig& config) {
  std::vector<std::string> left_out;
  if (config.nested()) left_out.emplace_back("all but the language model: parts for images, sounds and films");
  if (config.boolean_or({"use_parallel_residual", "parallel_attn"}, false))
    left_out.emplace_back(
        "the order of attention and the dense part, which read the same input: one follows the other");
  if (dense_beside_experts(config))
    left_out.emplace_back("the place of the dense part beside the experts: it is a shared expert, of its size");
  if (config.boolean_or({"lm_head_bias"}, false))
    left_out.emplace_back("the biases of the output head, one number for each word");
  if (const auto modules = config.find({"num_mtp_modules"}); modules && config.boolean_or({"use_mtp"}, true))
    left_out.push_back(fmt::format("{} modules that predict tokens further ahead", modules->integer()));
  return left_out;
}

}  // namespace dovetail
