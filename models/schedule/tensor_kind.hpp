// The kinds of tensors of a schedule: names, shapes and what they hold.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/base/names.hpp"

namespace dovetail {

enum class TensorKind : std::uint8_t {
  LayerInput,
  AttentionInput,
  QueryKeyValue,
  AttentionContext,
  LogSumExp,
  AttentionScores,
  AttentionProbabilities,
  AttentionPartial,
  AttentionOutput,
  MoeInput,
  Routing,
  Encoded,
  EncodedScores,
  Dispatched,
  DispatchedScores,
  ExpertInput,
  Hidden,
  Activated,
  ExpertPartial,
  ExpertOutput,
  Combined,
  RoutingMask,
  CombineWeights,
  Compressed,
  Staging,
  ShadowInput,
  ShadowOutput,
  FfnInput,
  FfnHidden,
  FfnActivated,
  FfnPartial,
  FfnOutput,
  FfnSumGradient,
  ScoreGradient,
  OutputGradient,
  AttentionSumGradient,
  DenseWeights,
  DenseGradients,
  RouterWeights,
  RouterGradient,
  ExpertWeights,
  ExpertGradient,
  GatheredWeights,
  GatheredWeightGradient,
  OptimizerState,
  Tokens,
  EmbeddingPartial,
  NormedInput,
  NormedMoeInput,
  HeadInput,
  Logits,
  LossStatistics,
  GatheredStatistics,
  Loss,
  EmbeddingWeights,
  HeadWeights,
  NormWeights,
  ReplicatedGradients,
  GradientSquares,
  SquaresOfAll,
  QueryKeyInput,
  MtpInput,
  GatheredMtpInput,
  MtpColumns,
  SharedGradient
};

// A chunked tensor exists once per chunk. Shapes are in the letters of operands.md; empty: said there in words.
struct TensorEntry {
  TensorKind kind;
  std::string_view name, shape, holds;
  bool wide = false;  // fp32 at least, whatever the others are in
};
inline constexpr auto tensor_table = std::to_array<TensorEntry>({
    {TensorKind::LayerInput, "layer_input", "(T, M)", "a layer's input; that of layer `layers` is the model's output"},
    {TensorKind::AttentionInput, "attention_input", "(L, M)", "`layer_input` of all model-parallel ranks"},
    {TensorKind::QueryKeyValue, "query_key_value", "(L, Q+2K)", "queries, keys and values by sample and position"},
    {TensorKind::AttentionContext, "attention_context", "(L, Q)", "the heads' sums of values"},
    {TensorKind::LogSumExp, "log_sum_exp", "(L, heads here)", "of the attention's scores", true},
    {TensorKind::AttentionScores, "attention_scores", "(L, heads here, n)",
     "eager attention: each query's with all n keys of its sample, before the softmax"},
    {TensorKind::AttentionProbabilities, "attention_probabilities", "(L, heads here, n)",
     "eager attention: the softmax of the scores"},
    {TensorKind::AttentionPartial, "attention_partial", "(L, M)", "what this rank's heads give"},
    {TensorKind::AttentionOutput, "attention_output", "(T, M)", "its sum over the model-parallel ranks"},
    {TensorKind::MoeInput, "moe_input", "(T, M)", "`layer_input` + `attention_output`"},
    {TensorKind::Routing, "routing", "(entries, 3)", "token, place, score of each choice", true},
    {TensorKind::Encoded, "encoded", "(ep, dE, c, M)", "rows as they are sent to the experts' ranks"},
    {TensorKind::EncodedScores, "encoded_scores", "(ep, dE, c)", "scores at the experts: that of each of these rows",
     true},
    {TensorKind::Dispatched, "dispatched", "(ep, dE, c, M)", "rows as they arrive there"},
    {TensorKind::DispatchedScores, "dispatched_scores", "(ep, dE, c)", "`encoded_scores` as they arrive there", true},
    {TensorKind::ExpertInput, "expert_input", "(esp, ep, dE, c, M)",
     "rows of all ranks that share the experts' shards"},
    {TensorKind::Hidden, "hidden", "(esp, ep, dE, c, (g-1) S)", "ffn: relu(x W1); gated: x W1 and x W3 side by side"},
    {TensorKind::Activated, "activated", "(esp, ep, dE, c, S)",
     "gated experts of whole layers: silu(x W1) times x W3, of each hidden row"},
    {TensorKind::ExpertPartial, "expert_partial", "(esp, ep, dE, c, M)", "what this rank's shards give"},
    {TensorKind::ExpertOutput, "expert_output", "(ep, dE, c, M)", "its sum over the shards"},
    {TensorKind::Combined, "combined", "(ep, dE, c, M)", "rows as they come back"},
    {TensorKind::RoutingMask, "routing_mask", "(T, E, C)",
     "dense encoding: 1 where a token has the slot; of soft_moe its share of the slot"},
    {TensorKind::CombineWeights, "combine_weights", "(T, E, C)", "dense encoding: the score of a token in a slot, or 0",
     true},
    {TensorKind::Compressed, "compressed", "",
     "rows as they are sent: bf16 M elements; fp8 M e4m3 elements and an fp32 scale (M + 4 bytes)"},
    {TensorKind::Staging, "staging", "", "between two steps of an all-to-all: the step's `target_blocks` blocks"},
    {TensorKind::ShadowInput, "shadow_input", "(C, M)", "rows for a shadowed expert"},
    {TensorKind::ShadowOutput, "shadow_output", "(C, M)", "rows from it"},
    {TensorKind::FfnInput, "ffn_input", "(L, M)", "`moe_input` of all model-parallel ranks"},
    {TensorKind::FfnHidden, "ffn_hidden", "(L, (g-1) F)", "as `hidden`"},
    {TensorKind::FfnActivated, "ffn_activated", "(L, F)", "as `activated`"},
    {TensorKind::FfnPartial, "ffn_partial", "(L, M)", "what this rank's columns give"},
    {TensorKind::FfnOutput, "ffn_output", "(T, M)", "its sum over the model-parallel ranks"},
    {TensorKind::FfnSumGradient, "ffn_sum_gradient", "(T, M)",
     "the gradient that comes through a dense feed-forward part"},
    {TensorKind::ScoreGradient, "score_gradient", "(entries)", "of the choices' scores", true},
    {TensorKind::OutputGradient, "output_gradient", "(T, M)", "the sum of the gradients from above"},
    {TensorKind::AttentionSumGradient, "attention_sum_gradient", "(T, M)",
     "the gradient that comes through the attention"},
    {TensorKind::DenseWeights, "dense_weights", "", "Wq, Wk, Wv, Wo, then those of a dense feed-forward part"},
    {TensorKind::DenseGradients, "dense_gradients", "",
     "of the `dense_weights` of all layers of the stage, last layer first"},
    {TensorKind::RouterWeights, "router_weights", "the gate's", "the matrices of the gate"},
    {TensorKind::RouterGradient, "router_gradient", "the gate's", "this rank's part of the sum"},
    {TensorKind::ExpertWeights, "expert_weights", "(dE, g M S)",
     "W1 (M, S), W2 (S, M) and, gated, W3 (M, S) of each expert"},
    {TensorKind::ExpertGradient, "expert_gradient", "(dE, g M S)", "of `expert_weights`"},
    {TensorKind::GatheredWeights, "gathered_weights", "(dE, P g M S)",
     "those of all shards, or of one shadowed expert"},
    {TensorKind::GatheredWeightGradient, "gathered_weight_gradient", "(dE, P g M S)", "of `gathered_weights`"},
    {TensorKind::OptimizerState, "optimizer_state", "",
     "both Adam moments and, where weights are not fp32, the weights in fp32", true},
    {TensorKind::Tokens, "tokens", "(2, L)", "the word at each position, by sample and position, then the one after it",
     true},
    {TensorKind::EmbeddingPartial, "embedding_partial", "(L, M)", "rows of the words that this rank has, else 0"},
    {TensorKind::NormedInput, "normed_input", "(T, M)", "`layer_input`, each row over its root mean square"},
    {TensorKind::NormedMoeInput, "normed_moe_input", "(T, M)", "the same of `moe_input`"},
    {TensorKind::HeadInput, "head_input", "(L, M)", "`normed_input` of all model-parallel ranks, after the last layer"},
    {TensorKind::Logits, "logits", "(L, V)", "this rank's words; after the loss the gradient of these"},
    {TensorKind::LossStatistics, "loss_statistics", "(L, 3)",
     "of each row of `logits`: largest, sum of exp(logit - largest), the right word's logit or 0", true},
    {TensorKind::GatheredStatistics, "gathered_statistics", "(mp, L, 3)", "those of all model-parallel ranks", true},
    {TensorKind::Loss, "loss", "(L)", "cross-entropy of each position", true},
    {TensorKind::EmbeddingWeights, "embedding_weights", "(V, M)", "a row for each word of this rank"},
    {TensorKind::HeadWeights, "head_weights", "(V, M)", "the same of the output head"},
    {TensorKind::NormWeights, "norm_weights", "",
     "(2, M) of a layer's two norms, then those of queries and of keys; (M) of the final one"},
    {TensorKind::ReplicatedGradients, "replicated_gradients", "",
     "of what all ranks of the stage hold alike: by layer, its norms and its router; then the final norm"},
    {TensorKind::GradientSquares, "gradient_squares", "(1)",
     "the sum of the squares of the gradients that this rank updates, each divided by the ranks that update it", true},
    {TensorKind::SquaresOfAll, "squares_of_all", "(1)", "the sum of these over all ranks: the norm's square", true},
    {TensorKind::QueryKeyInput, "query_key_input", "",
     "(L, Q+K) queries and keys before their norms; of latent attention its low ranks"},
    {TensorKind::MtpInput, "mtp_input", "(T, 2M)",
     "multi-token prediction: norms of the next words' embeddings and of the output before, side by side"},
    {TensorKind::GatheredMtpInput, "gathered_mtp_input", "(L, 2M)", "`mtp_input` of all model-parallel ranks"},
    {TensorKind::MtpColumns, "mtp_columns", "(L, M / mp)",
     "multi-token prediction: this rank's columns of the projection"},
    {TensorKind::SharedGradient, "shared_gradient", "(V, M)",
     "the gradient of the embedding that another stage has, on the stage where it arrives"},
});

inline constexpr auto tensor_kind_names = [] {
  Names<TensorKind, tensor_table.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (tensor_table[i].kind != static_cast<TensorKind>(i)) throw InternalError("a tensor's entry in another place");
    names[i] = {tensor_table[i].name, tensor_table[i].kind};
  }
  return names;
}();

constexpr const TensorEntry& entry_of(TensorKind kind) {
  return tensor_table[static_cast<std::size_t>(kind)];
}

}  // namespace dovetail
