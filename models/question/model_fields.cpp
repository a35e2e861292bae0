// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "models/question/fields.hpp"

namespace dovetail {
namespace {

constexpr int most_layers = 1000, most_hidden = 10'000'000, most_positions = 100'000'000;

bool grouped(const Attention& a) {
  return a.kind == AttentionKind::GroupedQuery;
}
bool latent(const Attention& a) {
  return a.kind == AttentionKind::Latent;
}
constexpr std::string_view of_latent = "contradicts kind latent", of_grouped = "contradicts kind grouped_query";

bool moe(const Model& m) {
  return !m.dense();
}
constexpr std::string_view no_experts = "given, but experts is 0";

Field size_of_latent(Field field) {
  return std::move(field).in("elements").where(latent, of_grouped);
}

std::vector<Field> latent_sizes() {
  std::vector<Field> sizes;
  sizes.push_back(size_of_latent(field::whole<&Attention::q_rank>(
      "q_rank", 0, most_head_size, "`latent`: elements from which queries are made; 0: they are made directly.")));
  sizes.push_back(
      size_of_latent(field::whole<&Attention::kv_rank>("kv_rank", 1, most_head_size,
                                                       "`latent`: elements from which keys and values are made.")
                         .must()));
  sizes.push_back(
      size_of_latent(field::whole<&Attention::nope_size>("nope_size", 1, most_head_size,
                                                         "`latent`: elements of a query or key without position.")
                         .must()));
  sizes.push_back(size_of_latent(
      field::whole<&Attention::rope_size>("rope_size", 0, most_head_size,
                                          "`latent`: elements with position; of keys, one set for all heads.")
          .must()));
  sizes.push_back(field::whole<&Attention::value_size>(
                      "value_size", 0, most_head_size,
                      "Elements of a value; 0: as many as of a key. Of `latent` it must be given. With `grouped_query` "
                      "runs do not execute other sizes than keys'.")
                      .in("elements")
                      .unless_usual());
  return sizes;
}

std::vector<Field> windows() {
  const auto has_window = [](const Attention& a) { return a.window > 0; };
  constexpr std::string_view none = "given, but no layer has a window";
  return {
      field::whole<&Attention::window>(
          "window", 0, most_positions,
          "Positions that a position sees in layers with windows; 0: every layer sees the whole "
          "sample.")
          .in("positions")
          .unless_usual(),
      field::whole<&Attention::windowed_layers>(
          "windowed_layers", 0, most_layers,
          "How many layers of the model have windows. Steps take the mean of the model's "
          "layers for each of them. Real runs see the whole sample, and say so.")
          .else_taken("all")
          .where<Attention>(has_window, none),
      field::choice<&Attention::windows>(
          "windows", windows_names,
          "`sliding`: so many positions before each. `chunks`: those of its own of equal chunks. `chosen`: those that "
          "`index` scores highest (DeepSeek-V3.2).")
          .where<Attention>(has_window, none)
          .unless_usual(),
  };
}

bool has_windows(const Attention& a) {
  return a.window > 0 && grouped(a);
}
bool chooses(const Attention& a) {
  return a.window > 0 && a.windows == Windows::Chosen;
}

std::vector<Field> of_some_attention() {
  return {
      field::choice<&Attention::gate>(
          "gate", output_gate_names,
          "A sigmoid of the token that scales attention's result before its output's projection: `none`, for each "
          "`element` (Qwen3-Next) or for each `head` (Step-3.5). Runs do not execute it.")
          .unless_usual(),
      field::part<&Attention::index>(
          "index",
          "How `windows` `chosen` chooses positions: each is scored by heads of its own. Runs do not execute it.")
          .else_taken("none")
          .where(chooses, "given, but no positions are chosen")
          .written_where<Attention>([](const Attention& a) { return a.index.heads > 0; }),
      field::part<&Attention::windowed>(
          "windowed",
          "The heads of layers with windows, if they differ from those of the others. Runs do not execute "
          "them.")
          .else_taken("the same")
          .where(has_windows, "given, but no layer has a window")
          .written_where<Attention>([](const Attention& a) { return a.windowed.heads > 0; }),
      field::flag<&Attention::shared_values>(
          "shared_values",
          "Whether keys are values too, so that one projection makes both, but in layers with `windowed` heads (Gemma "
          "4). Runs do not execute it.")
          .where(grouped, of_latent)
          .unless_usual(),
      field::whole<&Attention::layers>(
          "layers", 0, most_layers,
          "How many of the model's layers have attention, if others have a recurrence; 0: all. Steps take the mean of "
          "the model's layers for each of them. Runs execute models whose layers all have attention.")
          .unless_usual(),
  };
}

bool has_state(const Recurrence& r) {
  return r.kind != RecurrenceKind::ShortConvolution;
}
bool has_convolution(const Recurrence& r) {
  return r.kind != RecurrenceKind::Lightning;
}
bool of_kimi(const Recurrence& r) {
  return r.kind == RecurrenceKind::KimiDelta;
}
bool has_rank(const Recurrence& r) {
  return of_kimi(r) || r.kind == RecurrenceKind::Mamba;
}

std::vector<Field> recurrence_fields() {
  constexpr std::string_view other = "contradicts the kind";
  return {
      field::choice<&Recurrence::kind>(
          "kind", recurrence_kind_names,
          "`gated_delta` (Qwen3-Next), `kimi_delta` (Kimi Linear), `lightning` (MiniMax-01), `mamba` (Jamba), `mamba2` "
          "(Nemotron-H, Granite 4) or `short_convolution` (LFM2).")
          .must(),
      field::whole<&Recurrence::layers>("layers", 1, most_layers, "How many of the model's layers have it.").must(),
      field::whole<&Recurrence::heads>("heads", 1, most_hidden,
                                       "Heads of values; of `mamba` and `short_convolution` their channels.")
          .must(),
      field::whole<&Recurrence::value_size>("value_size", 1, most_head_size,
                                            "Elements of a value; 1 of `mamba` and `short_convolution`.")
          .must()
          .in("elements"),
      field::whole<&Recurrence::key_heads>("key_heads", 1, most_head_size,
                                           "Heads of queries and keys; of `mamba2` groups; 1 of `mamba`.")
          .must()
          .where(has_state, other),
      field::whole<&Recurrence::key_size>(
          "key_size", 1, most_head_size, "Elements of a query or key; of `mamba` and `mamba2` the states of a channel.")
          .must()
          .in("elements")
          .where(has_state, other),
      field::whole<&Recurrence::convolution>("convolution", 1, 1000, "Positions that a convolution before it sees.")
          .must()
          .in("positions")
          .where(has_convolution, other),
      field::whole<&Recurrence::rank>("rank", 1, most_head_size,
                                      "Elements from which `kimi_delta` makes its gates and `mamba` time steps.")
          .must()
          .in("elements")
          .where(has_rank, other),
      field::flag<&Recurrence::direct_gate>(
          "direct_gate", "`kimi_delta`: whether the output's gate is made of the token, without `rank` (Kimi K3).")
          .where(of_kimi, other)
          .unless_usual(),
  };
}

std::vector<Field> attention_fields() {
  std::vector<Field> fields{
      field::choice<&Attention::kind>(
          "kind", attention_kind_names,
          "`grouped_query`: with `kv_heads` and `head_size`. `latent`: DeepSeek's, with the five "
          "sizes of its low ranks. Ranks that share it repeat the projections down to `q_rank` and "
          "`kv_rank`.")
          .unless_usual(),
      field::whole<&Attention::heads>("heads", 1, most_head_size, "Query heads, a multiple of `kv_heads`.").must(),
      field::whole<&Attention::kv_heads>("kv_heads", 1, most_head_size,
                                         "Key and value heads. With fewer than `heads`, several queries share one.")
          .must()
          .where(grouped, of_latent),
      field::whole<&Attention::head_size>("head_size", 1, most_head_size,
                                          "Elements of one head (not always `hidden` / `heads`).")
          .must()
          .in("elements")
          .where(grouped, of_latent),
  };
  std::ranges::move(latent_sizes(), std::back_inserter(fields));
  fields.push_back(
      field::choice<&Attention::qk_norm>(
          "qk_norm", qk_norm_names,
          "Norms of queries and keys: `none`, `head` (a weight for each element of a head, as Qwen3) or "
          "`width` (for each element of all heads, as OLMoE; with several model-parallel ranks GPUs do not "
          "execute this). Latent attention has norms of its low ranks instead.")
          .where(grouped, of_latent)
          .unless_usual());
  std::ranges::move(windows(), std::back_inserter(fields));
  std::ranges::move(of_some_attention(), std::back_inserter(fields));
  fields.push_back(field::flag<&Attention::sinks>("sinks",
                                                  "Whether each head has a learned score of its own, which no position "
                                                  "takes (gpt-oss). It is counted; its work is not modelled.")
                       .unless_usual());
  return fields;
}

std::vector<Field> layers_and_experts() {
  return {
      field::text<&Model::name>("name", {}, "Shown in reports; of a shipped file, its file name.").must(),
      field::text<&Model::source>("source", {.may_be_empty = true}, "Where the sizes come from."),
      field::whole<&Model::layers>(
          "layers", 1, most_layers,
          "Number of layers. Each is attention followed by experts, or by a dense feed-forward part.")
          .must(),
      field::whole<&Model::hidden>("hidden", 1, 1'000'000, "Embedding size M.").must().in("elements"),
      field::part<&Model::attention>("attention", "Sizes of the attention part.").must(),
      field::whole<&Model::experts>(
          "experts", 0, most_experts,
          "Routed experts E of a layer. With 0 the model is dense: it gives `dense_hidden`, and "
          "neither `top_k`, `expert_hidden` nor anything else of experts.")
          .must(),
      field::whole<&Model::top_k>("top_k", 1, most_experts, "To how many experts each token goes.")
          .must()
          .where(moe, no_experts),
      field::whole<&Model::expert_hidden>("expert_hidden", 1, most_hidden, "Hidden size H of one expert.")
          .must()
          .in("elements")
          .where(moe, no_experts),
      field::whole<&Model::expert_input>(
          "expert_input", 0, 1'000'000,
          "Elements of a row that routed experts take, which a projection makes of a token, and another turns back "
          "(Nemotron 3 Super); 0: `hidden`. Runs do not execute it.")
          .in("elements")
          .where(moe, no_experts)
          .unless_usual(),
      field::choice<&Model::expert_kind>(
          "expert_kind", expert_kind_names,
          "`ffn` has two matrices, M x H and H x M; `gated` has three (Mixtral's SwiGLU). Dense "
          "layers and shared experts are of this kind too.")
          .must(),
      field::whole<&Model::vocabulary>(
          "vocabulary", 0, 2'147'483'647,
          "Rows of the embedding and of the output head, two matrices; needed with `extent` "
          "`model`.")
          .in("words"),
      field::whole<&Model::sequence>(
          "sequence", 0, most_positions,
          "Length of a sample in most of its training, which workloads take where the cluster has "
          "no default; 0: not known.")
          .in("tokens")
          .unless_usual(),
  };
}

std::vector<Field> dense_layers() {
  return {
      field::whole<&Model::first_dense>("first_dense", 0, 10'000, "Layers without experts at the start.")
          .where(moe, no_experts)
          .unless_usual(),
      field::whole<&Model::moe_every>(
          "moe_every", 1, 10'000,
          "Of the layers after those, each whose number (from 1) this divides has experts, the "
          "others are dense.")
          .where(moe, no_experts)
          .unless_usual(),
      field::whole<&Model::dense_hidden>(
          "dense_hidden", 1, most_hidden,
          "Hidden size of the layers without experts, where there are any. The ranks that share "
          "attention also share them.")
          .in("elements")
          .else_taken("no layer is dense")
          .written_where<Model>([](const Model& m) { return m.dense_hidden > 0; }),
  };
}

std::vector<Field> what_experts_have() {
  return {
      field::part<&Model::shared_experts>(
          "shared_experts",
          "Experts that every token goes to, beside the routed ones. The ranks that share "
          "attention also share them.")
          .else_taken("none")
          .where(moe, no_experts)
          .written_where<Model>([](const Model& m) { return m.shared_experts.count > 0; }),
      field::part<&Model::router>("router", "How the router chooses experts.")
          .where(moe, no_experts)
          .written_where<Model>([](const Model& m) { return m.router != Router{}; }),
  };
}

std::vector<Field> small_parts() {
  return {
      field::choice<&Model::biases>(
          "biases", biases_names,
          "Linear layers that add a vector: `none`, `query_key_value` (as Qwen2), `attention` (these "
          "and attention's output, as Phi-3.5-MoE) or `all` but router and output head (as GPT-2).")
          .unless_usual(),
      field::choice<&Model::norms>("norms", norm_kind_names,
                                   "`rms` (a weight for each element) or `layer` (a weight and a bias).")
          .unless_usual(),
      field::flag<&Model::tied_embeddings>(
          "tied_embeddings",
          "Whether the output head's weights are the embedding's. With one pipeline stage a "
          "step has them once. On several the first and the last one have a copy each, and "
          "exchange its gradient once a step.")
          .unless_usual(),
      field::whole<&Model::learned_positions>("learned_positions", 0, most_positions,
                                              "Positions that each have an embedding (GPT-2).")
          .in("positions")
          .unless_usual(),
      field::whole<&Model::mtp_layers>(
          "mtp_layers", 0, most_layers,
          "Layers that predict tokens further ahead, each with norms and a projection of its two "
          "inputs (DeepSeek-V3). They are counted apart from the total; `workload.mtp_layers` says "
          "whether they are trained.")
          .unless_usual(),
      field::flag<&Model::dropless>(
          "dropless",
          "Whether it is trained without dropping tokens, in messages as large as what is chosen. A "
          "workload then has `capacity_factor` 0 and `message_sizes` `routed`, unless it, its trace "
          "or its cluster says otherwise. `dovetail import` writes it for every checkpoint with "
          "experts.")
          .unless_usual(),
  };
}

std::vector<Field> other_layers() {
  return {
      field::part<&Model::recurrence>(
          "recurrence",
          "How layers mix tokens that have no attention (or have it beside attention). Their work is derived from "
          "products of chunks of positions. Simulated and planned; runs do not execute it.")
          .else_taken("none")
          .written_where<Model>([](const Model& m) { return m.recurrence.layers > 0; }),
  };
}

std::vector<Field> measured_times() {
  constexpr auto profile = "#/definitions/profile";
  return {
      field::described(
          "expert_profile", OtherField{profile, "object"},
          "Measured times of a rank's experts, in place of modelled ones, by all the rows they take at once. For "
          "simulating only.")
          .else_taken("modelled"),
      field::described(
          "gate_profile", OtherField{profile, "object"},
          "Measured times of the gate, in place of modelled ones, by the tokens of a rank. For simulating only.")
          .else_taken("modelled"),
  };
}

}  // namespace

template <>
const FieldTable& fields_of<Attention>() {
  static const FieldTable table =
      FieldTable::of<Attention>("Attention", "Sizes of the attention part.", attention_fields());
  return table;
}

template <>
const FieldTable& fields_of<PositionIndex>() {
  static const FieldTable table = FieldTable::of<PositionIndex>(
      "Index", "How attention chooses the positions that it sees.",
      {
          field::whole<&PositionIndex::heads>("heads", 1, most_head_size, "Heads, which share their keys.").must(),
          field::whole<&PositionIndex::size>("size", 1, most_head_size, "Elements of a query or key.")
              .must()
              .in("elements"),
          field::whole<&PositionIndex::layers>("layers", 0, most_layers,
                                               "How many layers have one, while others take over the positions that "
                                               "those chose (GLM-5.2); 0: all with attention.")
              .unless_usual(),
      });
  return table;
}

template <>
const FieldTable& fields_of<HeadSizes>() {
  static const FieldTable table = FieldTable::of<HeadSizes>(
      "Heads in windows", "The heads of layers with windows.",
      {
          field::whole<&HeadSizes::heads>("heads", 1, most_head_size, "Query heads, a multiple of `kv_heads`.").must(),
          field::whole<&HeadSizes::kv_heads>("kv_heads", 1, most_head_size, "Key and value heads.").must(),
          field::whole<&HeadSizes::head_size>("head_size", 1, most_head_size, "Elements of a query or key.")
              .must()
              .in("elements"),
          field::whole<&HeadSizes::value_size>("value_size", 0, most_head_size,
                                               "Elements of a value; 0: as many as of a key.")
              .in("elements")
              .unless_usual(),
      });
  return table;
}

template <>
const FieldTable& fields_of<Recurrence>() {
  static const FieldTable table = FieldTable::of<Recurrence>(
      "Recurrence", "How layers without attention mix tokens: linear attention, a state space or a convolution.",
      recurrence_fields());
  return table;
}

template <>
const FieldTable& fields_of<SharedExpertSizes>() {
  static const FieldTable table = FieldTable::of<SharedExpertSizes>(
      "Shared experts", "Experts that every token goes to.",
      {
          field::whole<&SharedExpertSizes::count>("count", 1, most_experts, "How many.").must(),
          field::whole<&SharedExpertSizes::hidden>("hidden", 1, most_hidden, "Hidden size of each.")
              .must()
              .in("elements"),
          field::flag<&SharedExpertSizes::gate>(
              "gate", "Whether a sigmoid of the token scales their sum (Qwen2); kept in the file, not modelled."),
      });
  return table;
}

template <>
const FieldTable& fields_of<Router>() {
  static const FieldTable table = FieldTable::of<Router>(
      "Router", "How the router chooses experts.",
      {
          field::choice<&Router::scoring>("scoring", scoring_names, "What scores are made of the experts' logits."),
          field::whole<&Router::groups>("groups", 1, most_experts,
                                        "Groups of experts, of which a token may choose from some."),
          field::whole<&Router::top_groups>("top_groups", 1, most_experts, "From how many groups a token may choose.")
              .else_taken("all"),
          field::number<&Router::scale>("scale", {.least = 0, .most = 1'000'000, .above = true},
                                        "The factor on scores.")
              .in("ratio"),
          field::flag<&Router::normalise>("normalise", "Whether a token's scores are made to add up to `scale`."),
          field::flag<&Router::correction_bias>(
              "correction_bias", "Whether experts are chosen by score plus a bias of their own (DeepSeek-V3)."),
      });
  return table;
}

template <>
const FieldTable& fields_of<Model>() {
  static const FieldTable table = [] {
    std::vector<Field> fields = layers_and_experts();
    for (std::vector<Field> more :
         {small_parts(), other_layers(), dense_layers(), what_experts_have(), measured_times()})
      std::ranges::move(more, std::back_inserter(fields));
    return FieldTable::of<Model>("Model",
                                 "A transformer, most with Mixture of Experts; every layer is attention followed by "
                                 "experts or by a dense feed-forward part.",
                                 std::move(fields));
  }();
  return table;
}

}  // namespace dovetail
