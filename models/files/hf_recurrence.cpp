// SPDX-License-Identifier: Apache-2.0
#include "models/files/hf_recurrence.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace dovetail {
namespace {

// Layers that have attention, that have a recurrence and, where parts are listed one by one, feed-forward parts.
struct Mixers {
  int attention = 0, recurrence = 0, feed_forward = 0;
};

bool is_attention(std::string_view type) {
  return type.ends_with("attention") && !type.starts_with("linear");
}

bool is_feed_forward(std::string_view type) {
  return type == "moe" || type == "mlp";
}

Mixers by_type(const JsonReader& types) {
  Mixers mixers;
  for (const JsonReader& each : types.elements()) {
    const std::string type = each.string();
    if (is_attention(type))
      ++mixers.attention;
    else if (is_feed_forward(type))
      ++mixers.feed_forward;
    else if (type == "mamba" || type == "linear_attention" || type == "conv")
      ++mixers.recurrence;
    else
      each.fail(fmt::format("layers of {} are not built; expected attention, linear_attention, mamba or conv", type));
  }
  return mixers;
}

Mixers by_number(const JsonReader& types) {  // MiniMax: 1 is attention
  Mixers mixers;
  for (const JsonReader& each : types.elements()) ++(each.integer(0, 1) == 1 ? mixers.attention : mixers.recurrence);
  return mixers;
}

Mixers listed_attention(const JsonReader& list, int layers) {
  const int count = static_cast<int>(list.elements().size());
  return {count, layers - count};
}

constexpr std::string_view pattern_key = "hybrid_override_pattern";

std::optional<JsonReader> types_of(const HfConfig& config) {
  return config.find({"layer_types", "layers_block_type"});
}

// Nemotron-H: M a state space, * attention, - a dense part, E experts.
Mixers by_pattern(const JsonReader& pattern) {
  Mixers mixers;
  for (const char layer : pattern.string()) switch (layer) {
      case 'M':
        ++mixers.recurrence;
        break;
      case '*':
        ++mixers.attention;
        break;
      case '-':
      case 'E':
        ++mixers.feed_forward;
        break;
      default:
        pattern.fail(fmt::format("layer '{}', expected M, *, - or E", layer));
    }
  return mixers;
}

// None where no key says that layers differ.
std::optional<Mixers> mixers_of(const HfConfig& config, const Model& model) {
  const int period = config.integer_or({"full_attention_interval", "attn_layer_period"}, 1);
  config.integer_or({"attn_layer_offset"}, 0, 0);  // the order of layers changes nothing: steps take their mean
  if (const auto pattern = config.find({pattern_key})) return by_pattern(*pattern);
  if (const auto list = config.find({"linear_attn_config/full_attn_layers", "attn_layer_indices"}))
    return listed_attention(*list, model.layers);
  if (const auto types = types_of(config)) return by_type(*types);
  if (const auto types = config.find({"attn_type_list"})) return by_number(*types);
  const int attention = model.layers / period;
  return period > 1 ? std::optional(Mixers{attention, model.layers - attention}) : std::nullopt;
}

// The hidden size times `expand`, which JSON may give as any number.
int widened(const Model& model, const HfConfig& config, HfConfig::Keys expand) {
  constexpr int most = 1000;  // far above any model
  const std::int64_t width = std::int64_t{model.hidden} * config.integer_or(expand, 2, 1, most);
  if (width > JsonReader::int_max)
    config.at({"hidden_size", "d_model"}).fail(fmt::format("{} inner channels are too many", width));
  return static_cast<int>(width);
}

void set_keys(int heads, int size, Recurrence& r) {
  r.key_heads = heads;
  r.key_size = size;
}

void read_gated_delta(const HfConfig& config, Recurrence& r) {
  r.kind = RecurrenceKind::GatedDelta;
  r.heads = config.integer({"linear_num_value_heads"}, 1);
  r.value_size = config.integer({"linear_value_head_dim"}, 1);
  set_keys(config.integer({"linear_num_key_heads"}, 1), config.integer({"linear_key_head_dim"}, 1), r);
  r.convolution = config.integer({"linear_conv_kernel_dim"}, 1);
}

void read_kimi_delta(const HfConfig& config, Recurrence& r) {
  r.kind = RecurrenceKind::KimiDelta;
  r.heads = config.integer({"linear_attn_config/num_heads"}, 1);
  r.rank = r.value_size = config.integer({"linear_attn_config/head_dim"}, 1);
  r.direct_gate = config.boolean_or({"linear_attn_config/use_full_rank_gate"}, false);
  set_keys(r.heads, r.value_size, r);
  r.convolution = config.integer({"linear_attn_config/short_conv_kernel_size"}, 1);
}

// As wide as attention, whose heads it has.
void read_lightning(const Attention& a, Recurrence& r) {
  r.kind = RecurrenceKind::Lightning;
  r.heads = a.heads;
  r.value_size = a.head_size;
  set_keys(a.heads, a.head_size, r);
}

void read_mamba2(const HfConfig& config, const Model& model, Recurrence& r) {
  r.kind = RecurrenceKind::Mamba2;
  r.heads = config.integer({"mamba_n_heads", "mamba_num_heads"}, 1);
  const auto size = config.find({"mamba_d_head", "mamba_head_dim"});
  const bool given = size && size->value().is_number();  // else "auto"
  const int width = widened(model, config, {"mamba_expand", "expand"});
  r.value_size = given ? size->integer(1) : width / r.heads;
  config.given({"use_conv_bias", "mamba_conv_bias"});  // the convolution's is always counted
  set_keys(config.integer({"mamba_n_groups", "n_groups"}, 1), config.integer({"mamba_d_state", "ssm_state_size"}, 1),
           r);
  r.convolution = config.integer({"mamba_d_conv", "conv_kernel"}, 1);
}

void read_mamba(const HfConfig& config, const Model& model, Recurrence& r) {
  r.kind = RecurrenceKind::Mamba;
  r.heads = widened(model, config, {"mamba_expand"});
  r.value_size = 1;
  set_keys(1, config.integer({"mamba_d_state"}, 1), r);
  r.convolution = config.integer({"mamba_d_conv"}, 1);
  config.given({"mamba_conv_bias"});  // always counted
  const auto rank = config.find({"mamba_dt_rank"});
  r.rank = rank && rank->value().is_number() ? rank->integer(1) : (model.hidden + 15) / 16;  // "auto"
}

void read_short_convolution(const HfConfig& config, const Model& model, Recurrence& r) {
  r.kind = RecurrenceKind::ShortConvolution;
  r.heads = config.integer_or({"conv_dim"}, model.hidden);
  r.value_size = 1;
  r.convolution = config.integer({"conv_L_cache"}, 1);
}

void read_kind(const HfConfig& config, const Model& model, Recurrence& r) {
  if (config.given({"linear_num_value_heads"})) return read_gated_delta(config, r);
  if (config.given({"linear_attn_config"})) return read_kimi_delta(config, r);
  if (config.given({"mamba_n_heads", "mamba_num_heads"})) return read_mamba2(config, model, r);
  if (config.given({"mamba_d_state"})) return read_mamba(config, model, r);
  if (config.given({"conv_L_cache"})) return read_short_convolution(config, model, r);
  if (config.given({"attn_type_list"})) return read_lightning(model.attention, r);
  config.text().fail("some layers have no attention, but no key of this file that is known here says what they have");
}

}  // namespace

void read_recurrence(const HfConfig& config, Model& model) {
  const auto mixers = mixers_of(config, model);
  if (!mixers)
    if (const auto key =
            config.find({"mamba_d_state", "ssm_state_size", "linear_num_value_heads", "linear_attn_config"}))
      key->fail("given, but no key that is known here says which layers have it and which attention");
  if (mixers && mixers->feed_forward > 0) model.layers = mixers->feed_forward;
  if (!mixers || mixers->recurrence == 0) return;
  if (mixers->attention == 0) config.text().fail("no layer has attention, which is not built");
  model.attention.layers = mixers->attention;
  read_kind(config, model, model.recurrence);
  model.recurrence.layers = mixers->recurrence;
}

std::vector<bool> listed_experts(const HfConfig& config) {
  std::vector<bool> experts;
  if (const auto pattern = config.find({pattern_key})) {
    for (const char layer : pattern->string())
      if (layer == '-' || layer == 'E') experts.push_back(layer == 'E');
  } else if (const auto types = types_of(config)) {
    for (const JsonReader& each : types->elements())
      if (const std::string type = each.string(); is_feed_forward(type)) experts.push_back(type == "moe");
  }
  return experts;
}

}  // namespace dovetail
