// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/megatron_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "bench/imports/layer_pattern.hpp"
#include "models/base/json/json_text.hpp"

namespace dovetail::bench {
namespace {

using Settings = MegatronSettings;

constexpr int gpt2_words = 50'257;  // of the vocabulary that GPT2BPETokenizer reads

Attention megatron_attention(const Settings& s, int hidden, int layers) {
  Attention a;
  a.heads = s.required_whole("num_attention_heads");
  if (s.on("multi_latent_attention")) {
    a.kind = AttentionKind::Latent;
    a.kv_heads = a.heads;
    a.q_rank = s.whole("q_lora_rank", 0);
    a.kv_rank = s.whole("kv_lora_rank");
    a.nope_size = s.whole("qk_head_dim");
    a.rope_size = s.whole("qk_pos_emb_head_dim", 0);
    a.value_size = s.whole("v_head_dim");
    a.head_size = a.nope_size + a.rope_size;
  } else {
    const bool grouped = s.on("group_query_attention") || (s.run().fields && s.given("num_query_groups"));
    a.kv_heads = grouped ? s.whole("num_query_groups") : a.heads;
    if (a.kv_heads > a.heads || a.heads % a.kv_heads != 0)
      s.fail("num_query_groups", fmt::format("{} do not divide the {} attention heads", a.kv_heads, a.heads));
    if (!s.given("kv_channels") && hidden % a.heads != 0)
      s.fail("num_attention_heads", fmt::format("{} do not divide the hidden size {}", a.heads, hidden));
    a.head_size = s.whole_if_given("kv_channels").value_or(hidden / a.heads);
    if (s.on("qk_layernorm") || s.on("qk_l2_norm")) a.qk_norm = QkNorm::Head;
  }
  const std::string softmax = s.choice("softmax_type", {"vanilla", "off-by-one", "learnable"});
  a.sinks = softmax == "learnable" && a.kind == AttentionKind::GroupedQuery;
  if (softmax != "vanilla" && !a.sinks) s.unsaid("softmax_type", "here scores have no sink");
  if (!s.given("window_size")) return a;
  int window = 0;
  const std::vector<std::string> sizes = s.words("window_size");
  const std::string first = sizes.empty() ? "" : sizes.front().substr(sizes.front().starts_with('(') ? 1 : 0);
  const auto end = std::from_chars(first.data(), first.data() + first.size(), window).ptr;
  if (end != first.data() + first.size() || first.empty())
    s.fail("window_size",
           fmt::format("{}, expected two numbers such as (128,0)", in_quotes(s.list_text("window_size"))));
  if (window <= 0) return a;  // every layer sees all
  a.window = window;
  a.windowed_layers = layers;
  return a;
}

// The number of `layers` that a list marks by 1, or of all but each whose number, from 1, is a multiple of the
// frequency.
int marked_layers(const Settings& s, std::string_view name, int layers) {
  const std::string text = s.list_text(name);
  if (const auto list = layer_list(text)) return std::min(layers, static_cast<int>(std::ranges::count(*list, true)));
  int every = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), every).ptr;
  if (end != text.data() + text.size() || every < 1)
    s.fail(name, fmt::format("{}, expected a number or a list of 0 and 1", in_quotes(text)));
  return layers - layers / every;
}

void read_windowed_layers(const Settings& s, Model& model) {
  if (model.attention.window == 0 || !s.given("window_attn_skip_freq")) return;
  model.attention.windowed_layers = marked_layers(s, "window_attn_skip_freq", model.layers);
}

void read_gated_delta_net(const Settings& s, Model& model) {
  if (!s.given("linear_attention_freq"))
    s.fail("experimental_attention_variant", "needs --linear-attention-freq, which says the layers of either kind");
  Recurrence& r = model.recurrence;
  r.layers = marked_layers(s, "linear_attention_freq", model.layers);
  if (r.layers == model.layers) s.fail("linear_attention_freq", "leaves no layer with attention, which is not built");
  if (r.layers == 0) return;
  model.attention.layers = model.layers - r.layers;
  r.heads = s.whole("linear_num_value_heads");
  r.value_size = s.whole("linear_value_head_dim");
  r.key_heads = s.whole("linear_num_key_heads");
  r.key_size = s.whole("linear_key_head_dim");
  r.convolution = s.whole("linear_conv_kernel_dim");
}

void read_position_index(const Settings& s, Model& model) {
  for (const char* name : {"dsa_indexer_topk", "dsa_indexer_n_heads", "dsa_indexer_head_dim"})
    if (!s.given(name)) s.fail("experimental_attention_variant", fmt::format("dsa needs {}", as_option(name)));
  Attention& a = model.attention;
  a.window = s.whole("dsa_indexer_topk");
  a.windows = Windows::Chosen;
  a.windowed_layers = model.layers;
  a.index = {s.whole("dsa_indexer_n_heads"), s.whole("dsa_indexer_head_dim")};
}

void read_attention_variant(const Settings& s, Model& model) {
  if (s.on("attention_output_gate")) model.attention.gate = OutputGate::Element;
  if (!s.given("experimental_attention_variant")) return;
  const std::string variant = s.choice("experimental_attention_variant", {"gdn", "gated_delta_net", "gdn2", "dsa"});
  if (variant == "dsa") return read_position_index(s, model);
  if (variant == "gdn2") s.unsaid("experimental_attention_variant", "gdn2 is taken as gdn");
  read_gated_delta_net(s, model);
}

int dense_size(const Settings& s, int hidden) {
  if (const auto given = s.whole_if_given("ffn_hidden_size")) return *given;
  constexpr int growth = 4, tile = 64;
  const auto wide = std::int64_t{growth} * hidden;
  const auto size = s.on("swiglu") ? wide * 2 / 3 / tile * tile : wide;
  if (size < 1 || size > 2'000'000'000) s.fail("hidden_size", fmt::format("{}, which no model has", hidden));
  return static_cast<int>(size);
}

// The form of ours that picks the same layers; none where there is none.
std::optional<std::pair<int, int>> as_run(const std::vector<bool>& moe) {
  Model tried;
  tried.experts = 1;
  tried.layers = static_cast<int>(moe.size());
  const auto first_moe = static_cast<int>(std::ranges::find(moe, true) - moe.begin());
  for (int every = 1; every <= tried.layers; ++every) {
    tried.moe_every = every;
    tried.first_dense = std::max(0, first_moe - every + 1);
    bool same = true;
    for (int layer = 0; same && layer < tried.layers; ++layer)
      same = tried.is_moe(layer) == moe[static_cast<std::size_t>(layer)];
    if (same) return std::pair(tried.first_dense, every);
  }
  return {};
}

// Megatron-LM counts from the first layer: of every second layer it takes the first, third and so on.
std::vector<bool> moe_layers(const Settings& s, int layers) {
  const std::string text = s.list_text("moe_layer_freq");
  if (const auto list = layer_list(text)) {
    if (static_cast<int>(list->size()) != layers)
      s.fail("moe_layer_freq", fmt::format("a list of {} layers, but num_layers is {}", list->size(), layers));
    return *list;
  }
  int every = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), every).ptr;
  if (end != text.data() + text.size() || every < 1)
    s.fail("moe_layer_freq", fmt::format("{}, expected a number or a list such as ([0]*3+[1]*58)", in_quotes(text)));
  std::vector<bool> moe;
  for (int layer = 0; layer < layers; ++layer) moe.push_back(layer % every == 0);
  return moe;
}

void read_moe_layers(const Settings& s, Model& model) {
  const std::vector<bool> moe = moe_layers(s, model.layers);
  const auto of_experts = static_cast<int>(std::ranges::count(moe, true));
  if (of_experts == 0) s.fail("moe_layer_freq", "leaves no layer with experts, but num_experts is given");
  if (const auto run = as_run(moe)) {
    std::tie(model.first_dense, model.moe_every) = *run;
  } else {
    model.first_dense = model.layers - of_experts;
    s.unsaid("moe_layer_freq", fmt::format("here the {} dense layers come first", model.first_dense));
  }
  if (of_experts < model.layers) model.dense_hidden = dense_size(s, model.hidden);
}

Router megatron_router(const Settings& s, const Model& model) {
  Router router;
  const std::string score = s.choice("moe_router_score_function", {"softmax", "sigmoid", "sqrtsoftplus"});
  for (const auto& [name, scoring] : scoring_names)
    if (name == score) router.scoring = scoring;
  router.groups = s.whole("moe_router_num_groups");
  router.top_groups = s.whole_if_given("moe_router_group_topk").value_or(router.groups);
  if (model.experts % router.groups != 0)
    s.fail("moe_router_num_groups", fmt::format("{} do not divide the {} experts", router.groups, model.experts));
  if (router.top_groups > router.groups)
    s.fail("moe_router_group_topk",
           fmt::format("{}, expected at most the {} groups", router.top_groups, router.groups));
  router.scale = s.number("moe_router_topk_scaling_factor");
  if (router.scale <= 0) s.fail("moe_router_topk_scaling_factor", "expected more than zero");
  router.normalise = model.top_k > 1 && (router.scoring != Scoring::Softmax || !s.on("moe_router_pre_softmax"));
  router.correction_bias = s.on("moe_router_enable_expert_bias");
  return router;
}

void read_megatron_experts(const Settings& s, Model& model) {
  model.top_k = s.whole("moe_router_topk");
  if (model.top_k > model.experts)
    s.fail("moe_router_topk", fmt::format("{}, expected at most the {} experts", model.top_k, model.experts));
  model.expert_hidden = s.whole_if_given("moe_ffn_hidden_size").value_or(dense_size(s, model.hidden));
  read_moe_layers(s, model);
  if (const int shared = s.whole("moe_shared_expert_intermediate_size", 0); shared > 0)
    model.shared_experts = {1, shared, s.on("moe_shared_expert_gate")};
  model.router = megatron_router(s, model);
  model.dropless = !s.given("moe_expert_capacity_factor");
}

Biases megatron_biases(const Settings& s, const Model& model, Unsaid& unsaid) {
  const bool all = !s.on("disable_bias_linear");
  if (model.attention.kind == AttentionKind::Latent) {
    if (all) unsaid.notes.emplace_back("linear layers have biases beside latent attention; they are not counted");
    return Biases::None;
  }
  return all ? Biases::All : s.on("add_qkv_bias") ? Biases::QueryKeyValue : Biases::None;
}

int padded_words(const Settings& s, const ImportRequest& request, int tensor_ranks, Unsaid& unsaid) {
  if (request.vocabulary == 0 && s.given("padded_vocab_size")) return s.whole("padded_vocab_size");
  int words = request.vocabulary;
  if (words == 0 && s.given("vocab_size")) words = s.whole("vocab_size");
  const std::string tokenizer = s.word("tokenizer_type");
  if (words == 0 && (tokenizer == "GPT2BPETokenizer" || (tokenizer.empty() && s.given("merge_file")))) {
    words = gpt2_words;
    unsaid.notes.push_back(fmt::format("assumed is the vocabulary of GPT2BPETokenizer, {} words", words));
  }
  if (words == 0) {
    unsaid.notes.emplace_back(
        "the tokenizer says how large the vocabulary is, and it is not read: the embedding and the output head are "
        "left "
        "out; --vocabulary WORDS gives it");
    return 0;
  }
  if (s.on("no_pad_vocab_size") || s.on("disable_pad_vocab_size")) return words;
  const auto unit = std::int64_t{s.whole("make_vocab_size_divisible_by")} * tensor_ranks;
  const std::int64_t padded = (words + unit - 1) / unit * unit;
  if (padded > 2'000'000'000) s.fail("make_vocab_size_divisible_by", "pads the vocabulary beyond any model's");
  return static_cast<int>(padded);
}

int learned_positions(const Settings& s) {
  const std::string kind =
      s.choice("position_embedding_type", {"learned_absolute", "rope", "mrope", "yarn", "relative", "none"});
  if (kind == "relative") s.unsaid("position_embedding_type", "relative positions are not built");
  const bool learned = kind == "learned_absolute" && !s.on("use_rotary_position_embeddings") &&
                       !s.on("no_position_embedding") && !s.on("multi_latent_attention");
  if (!learned) return 0;
  return s.whole_if_given("max_position_embeddings").value_or(s.whole("seq_length"));
}

}  // namespace

Model megatron_model(const MegatronSettings& s, const ImportRequest& request, int tensor_ranks, Unsaid& unsaid) {
  constexpr int most_layers = 10'000, most_experts = 65'536;
  Model model;
  model.name = request.name;
  model.source = fmt::format("Megatron-LM arguments of {}", request.source);
  model.layers = s.required_whole("num_layers");
  if (model.layers > most_layers)
    s.fail("num_layers", fmt::format("{}, expected at most {}", model.layers, most_layers));
  model.hidden = s.required_whole("hidden_size");
  model.attention = megatron_attention(s, model.hidden, model.layers);
  read_windowed_layers(s, model);
  read_attention_variant(s, model);
  model.expert_kind = s.on("swiglu") || s.on("quick_geglu") ? ExpertKind::Gated : ExpertKind::Ffn;
  const std::string norm = s.choice("normalization", {"LayerNorm", "RMSNorm"});
  model.norms = norm == "RMSNorm" ? NormKind::Rms : NormKind::Layer;
  model.biases = megatron_biases(s, model, unsaid);
  model.tied_embeddings = !s.on("untie_embeddings_and_output_weights");
  model.vocabulary = padded_words(s, request, tensor_ranks, unsaid);
  model.learned_positions = learned_positions(s);
  model.sequence = s.whole("seq_length");
  model.mtp_layers = s.whole("mtp_num_layers", 0);
  model.experts = s.whole("num_experts", 0);
  if (model.experts > most_experts)
    s.fail("num_experts", fmt::format("{}, expected at most {}", model.experts, most_experts));
  if (!model.dense()) {
    read_megatron_experts(s, model);
  } else {
    model.first_dense = model.layers;
    model.dense_hidden = dense_size(s, model.hidden);
  }
  return model;
}

}  // namespace dovetail::bench
