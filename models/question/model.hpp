// SPDX-License-Identifier: Apache-2.0
// A Mixture-of-Experts transformer: the sizes that decide work, traffic and memory.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/question/time_profile.hpp"

namespace dovetail {

// Ffn: two GEMMs with ReLU between. Gated: Mixtral's SwiGLU, three GEMMs.
enum class ExpertKind { Ffn, Gated };
inline constexpr std::array<std::pair<std::string_view, ExpertKind>, 2> expert_kind_names{
    {{"ffn", ExpertKind::Ffn}, {"gated", ExpertKind::Gated}}};

// GroupedQuery: kv_heads < heads, or equal. Latent: DeepSeek's, with low-rank queries, keys and values.
enum class AttentionKind { GroupedQuery, Latent };
inline constexpr std::array<std::pair<std::string_view, AttentionKind>, 2> attention_kind_names{
    {{"grouped_query", AttentionKind::GroupedQuery}, {"latent", AttentionKind::Latent}}};

// Norms of queries and keys. Head: a weight for each element of a head (Qwen3). Width: for each of all heads (OLMoE).
enum class QkNorm { None, Head, Width };
inline constexpr std::array<std::pair<std::string_view, QkNorm>, 3> qk_norm_names{
    {{"none", QkNorm::None}, {"head", QkNorm::Head}, {"width", QkNorm::Width}}};

// The positions that one sees in layers with windows: so many before it (sliding), those of its own of equal chunks, or
// as many as an index chooses (DeepSeek-V3.2).
enum class Windows { Sliding, Chunks, Chosen };
inline constexpr std::array<std::pair<std::string_view, Windows>, 3> windows_names{
    {{"sliding", Windows::Sliding}, {"chunks", Windows::Chunks}, {"chosen", Windows::Chosen}}};

// A factor on the result of attention before its output's projection: a sigmoid of the token for each element
// (Qwen3-Next) or for each head (Step-3.5).
enum class OutputGate { None, Element, Head };
inline constexpr std::array<std::pair<std::string_view, OutputGate>, 3> output_gate_names{
    {{"none", OutputGate::None}, {"element", OutputGate::Element}, {"head", OutputGate::Head}}};

// An index that chooses the positions of attention: it scores each position by heads of its own, which share their
// keys.
struct PositionIndex {
  int heads = 0;   // 0: none
  int size = 0;    // elements of a query or key
  int layers = 0;  // that have one, while others take over what those have chosen; 0: all with attention
  friend bool operator==(const PositionIndex&, const PositionIndex&) = default;
};

// Heads of layers with windows, where they are others (MiMo-V2). value_size 0: head_size.
struct HeadSizes {
  int heads = 0;  // 0: the same as in all layers
  int kv_heads = 0, head_size = 0, value_size = 0;
  friend bool operator==(const HeadSizes&, const HeadSizes&) = default;
};

// head_size need not be hidden / heads. With Latent every head has a key and a value of its own, made from kv_rank
// elements a token; a query or key is nope_size elements without position and rope_size with (key: one for all heads).
struct Attention {
  int heads = 0;
  int kv_heads = 0;   // Latent: heads
  int head_size = 0;  // of a query or key; Latent: nope_size + rope_size
  AttentionKind kind = AttentionKind::GroupedQuery;
  // Latent only
  int q_rank = 0;  // 0: queries are not low-rank
  int kv_rank = 0;
  int nope_size = 0, rope_size = 0;
  int value_size = 0;             // 0: head_size
  QkNorm qk_norm = QkNorm::None;  // Latent norms its low ranks instead
  int window = 0;                 // positions; 0: every layer sees the whole sample
  int windowed_layers = 0;        // of the model's
  Windows windows = Windows::Sliding;
  bool sinks = false;  // each head has a score of its own, which no position takes (gpt-oss); counted, not modelled
  OutputGate gate = OutputGate::None;
  PositionIndex index = {};  // of windows that are chosen
  int layers = 0;            // of the model's that have attention; 0: all
  HeadSizes windowed = {};
  bool shared_values = false;  // keys are values too, but in `windowed` heads (Gemma 4)

  int value_head_size() const { return value_size > 0 ? value_size : head_size; }
  Attention in_windows() const;  // with the heads of layers with windows
};

// How layers without attention mix tokens, each by a state that passes from position to position.
enum class RecurrenceKind { GatedDelta, KimiDelta, Lightning, Mamba, Mamba2, ShortConvolution };
inline constexpr std::array<std::pair<std::string_view, RecurrenceKind>, 6> recurrence_kind_names{
    {{"gated_delta", RecurrenceKind::GatedDelta},
     {"kimi_delta", RecurrenceKind::KimiDelta},
     {"lightning", RecurrenceKind::Lightning},
     {"mamba", RecurrenceKind::Mamba},
     {"mamba2", RecurrenceKind::Mamba2},
     {"short_convolution", RecurrenceKind::ShortConvolution}}};

// Linear attention and state spaces. The state of a head is key_size by value_size numbers. Mamba-2's heads share the
// keys (B) and queries (C) of a group; Mamba has a head for each of its inner channels; a short convolution has neither
// keys nor a state.
struct Recurrence {
  RecurrenceKind kind = RecurrenceKind::GatedDelta;
  int layers = 0;            // of the model's that have it; 0: none
  int heads = 0;             // of values
  int value_size = 0;        // elements of a head
  int key_heads = 0;         // Mamba-2: groups
  int key_size = 0;          // Mamba and Mamba-2: the state of each channel
  int convolution = 0;       // positions that a convolution before it sees; 0: there is none
  int rank = 0;              // of its gates (Kimi) or time steps (Mamba)
  bool direct_gate = false;  // the output's gate is made without that rank (Kimi-K3)
  friend bool operator==(const Recurrence&, const Recurrence&) = default;
};

inline Attention Attention::in_windows() const {
  Attention other = *this;
  other.heads = windowed.heads;
  other.kv_heads = windowed.kv_heads;
  other.head_size = windowed.head_size;
  other.value_size = windowed.value_size;
  other.shared_values = false;
  return other;
}

// Experts that every token goes to. `gate`: their sum is scaled by a sigmoid of the token (Qwen2); kept, not modelled.
struct SharedExpertSizes {
  int count = 0;
  int hidden = 0;  // of each
  bool gate = false;
  friend bool operator==(const SharedExpertSizes&, const SharedExpertSizes&) = default;
};

// SqrtSoftplus: the root of log(1 + exp(logit)) (DeepSeek-V4).
enum class Scoring { Softmax, Sigmoid, SqrtSoftplus };
inline constexpr std::array<std::pair<std::string_view, Scoring>, 3> scoring_names{
    {{"softmax", Scoring::Softmax}, {"sigmoid", Scoring::Sigmoid}, {"sqrtsoftplus", Scoring::SqrtSoftplus}}};

// How a checkpoint's router chooses: facts of the model.
struct Router {
  Scoring scoring = Scoring::Softmax;
  int groups = 1;                // the experts in as many groups, of which a token may choose from
  int top_groups = 1;            // this many (DeepSeek)
  double scale = 1;              // of the scores
  bool normalise = false;        // the scores of the chosen experts add up to `scale`
  bool correction_bias = false;  // experts are chosen by score + a bias of their own
  friend bool operator==(const Router&, const Router&) = default;
};

// Vectors that linear layers add. QueryKeyValue: those that make queries, keys and values (Qwen2). Attention: these and
// attention's output (Phi-3.5-MoE). All: every one but the router and the output head (GPT-2).
enum class Biases { None, QueryKeyValue, Attention, All };
inline constexpr std::array<std::pair<std::string_view, Biases>, 4> biases_names{
    {{"none", Biases::None},
     {"query_key_value", Biases::QueryKeyValue},
     {"attention", Biases::Attention},
     {"all", Biases::All}}};

// Rms: a weight for each element. Layer: a weight and a bias.
enum class NormKind { Rms, Layer };
inline constexpr std::array<std::pair<std::string_view, NormKind>, 2> norm_kind_names{
    {{"rms", NormKind::Rms}, {"layer", NormKind::Layer}}};

// Every layer is attention, or a recurrence, followed by a feed-forward part: routed and shared experts (MoE), or one
// dense. A dense model has no MoE layer: no experts, none of their sizes, and first_dense is its layers.
struct Model {
  std::string name;
  std::string source;  // where the sizes come from
  int layers = 0;
  int hidden = 0;  // M, the embedding size
  Attention attention;
  int experts = 0;  // E; 0: a dense model
  int top_k = 0;
  int expert_hidden = 0;                     // H
  ExpertKind expert_kind = ExpertKind::Ffn;  // of dense layers and shared experts too
  int vocabulary = 0;                        // words; 0: not known
  int first_dense = 0;                       // that many layers are dense; of those after them
  int moe_every = 1;                         // each layer whose number, from 1, this divides is MoE
  int dense_hidden = 0;                      // of a dense layer
  SharedExpertSizes shared_experts = {};
  Router router = {};
  // Measured times that replace modelled ones, if given: the time of a rank's experts by all the rows they take, and
  // the time of the gate by the rank's tokens.
  TimeProfile expert_profile = {};
  TimeProfile gate_profile = {};
  int sequence = 0;  // tokens of a sample in most of its training; 0: not known
  // All of these count as parameters. Notes of a result name those that its step does not have.
  Biases biases = Biases::None;
  NormKind norms = NormKind::Rms;
  bool tied_embeddings = false;  // the output head's weights are the embedding's
  int learned_positions = 0;     // of which each has an embedding
  int mtp_layers = 0;            // that predict tokens further ahead, after the last layer (DeepSeek-V3)
  bool dropless = false;         // it is trained without dropping tokens, in messages as large as what is chosen
  Recurrence recurrence = {};    // of the layers that have no attention, or beside it
  int expert_input = 0;          // elements of a row that routed experts take, made of a token; 0: hidden

  bool dense() const { return experts == 0; }
  int row_width() const { return expert_input > 0 ? expert_input : hidden; }  // of rows that are dispatched
  int index_layers() const {
    if (attention.index.heads == 0) return 0;
    return attention.index.layers > 0 ? attention.index.layers : attention_layers();
  }
  int attention_layers() const { return attention.layers > 0 ? attention.layers : layers; }
  bool is_moe(int layer) const { return !dense() && layer >= first_dense && (layer + 1) % moe_every == 0; }
  int first_moe() const {  // may be past the last layer
    return (first_dense + moe_every) / moe_every * moe_every - 1;
  }
  int expert_gemms() const { return expert_kind == ExpertKind::Gated ? 3 : 2; }  // g: GEMMs per expert
  // Hidden elements of the dense feed-forward part of a layer: a dense layer's, or all shared experts side by side.
  std::int64_t ffn_hidden(int layer) const {
    return is_moe(layer) ? std::int64_t{shared_experts.count} * shared_experts.hidden : dense_hidden;
  }
};

}  // namespace dovetail
