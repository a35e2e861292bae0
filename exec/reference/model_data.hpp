// SPDX-License-Identifier: Apache-2.0
// Weights, inputs and loss gradients of an experiment in double, whole (not split over ranks), and what part of
// them each rank holds.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "models/question/experiment.hpp"

namespace dovetail::exec {

using Values = std::vector<double>;

// Weights of one layer, or their gradients. All heads and experts (of a dense layer none); row-major.
struct LayerWeights {
  Values query, key, value, output;  // (M, heads d), (M, kv_heads d), (M, kv_heads d), (heads d, M)
  // Latent attention has (M, q_rank) and (M, kv_rank + rope_size) too. Then `query` is (q_rank or M, heads d), `key`
  // (kv_rank, heads nope_size), `value` (kv_rank, heads value_size) and `output` (heads value_size, M).
  Values query_down, key_value_down;
  Values router;      // the gate's matrices, as models/schedule/operands.md lays them out
  Values w1, w2, w3;  // (E, M, H), (E, H, M), gated: (E, M, H)
  // Weights of the dense feed-forward part, if there is one: (M, D), (D, M), gated: (M, D).
  Values dense_w1, dense_w2, dense_w3;
  // (2, M): before the attention, and after it; then of queries and of keys, or of their low ranks. Empty where the
  // workload leaves norms out.
  Values norm;
  // A layer of multi-token prediction has (2M, M), first the rows of the next words' embeddings; then `norm` goes on
  // with the norms of the next words, of the output before and of its own output, M each.
  Values projection;
  // The experts' parameters where they are the user's own, which have no w1 to w3: (shards, E, those of a shard).
  Values custom_experts;
};
using Weight = Values LayerWeights::*;
inline constexpr std::array<Weight, 16> all_weights{&LayerWeights::query,
                                                    &LayerWeights::key,
                                                    &LayerWeights::value,
                                                    &LayerWeights::output,
                                                    &LayerWeights::router,
                                                    &LayerWeights::w1,
                                                    &LayerWeights::w2,
                                                    &LayerWeights::w3,
                                                    &LayerWeights::dense_w1,
                                                    &LayerWeights::dense_w2,
                                                    &LayerWeights::dense_w3,
                                                    &LayerWeights::norm,
                                                    &LayerWeights::projection,
                                                    &LayerWeights::query_down,
                                                    &LayerWeights::key_value_down,
                                                    &LayerWeights::custom_experts};

// Weights before and after the layers, or their gradients; empty where the workload leaves them out. The words are
// rounded up to a multiple of mp.
struct EndWeights {
  Values embedding, head;  // (V, M); the head's are empty where they are the embedding's
  Values norm;             // (M)
};
EndWeights zero_end_weights(const Experiment& experiment);
LayerWeights zero_weights(const Experiment& experiment, int layer);

// How to draw a model: each number follows from the seed, what it belongs to and its place there.
struct RandomModel {
  std::uint64_t seed = 1;
  int micro_batches = 1;
};

// The data ranks are those of one pipeline stage, each with T tokens in all. With m micro-batches the first T / m
// tokens of every rank come first: the micro-batches follow one another, and in each the tokens of the ranks, in order.
struct ModelData {
  std::vector<LayerWeights> layers;
  Values input;            // (data ranks T, M)
  Values output_gradient;  // of the loss by the model's output, alike
  EndWeights ends;
  Values words;  // (micro-batches, dp, L): of each position; empty where the workload has no embedding
  // Given: the members above are empty, and what a rank holds is drawn when it is asked for. Only a reference needs
  // all.
  std::optional<RandomModel> drawn_later;
};

// Random values that floats hold exactly, so that both number formats start from the same model.
// (A soft gate has weights for each capacity row of a micro-batch.)
ModelData random_model_data(const Experiment& experiment, std::uint64_t seed, int micro_batches = 1);
// The same, drawn later.
ModelData random_rank_data(std::uint64_t seed, int micro_batches = 1);

// The contents of dense_weights and expert_weights of one rank, as models/schedule/operands.md lays them out.
Values dense_shard(const Experiment& experiment, const LayerWeights& weights, int rank);
Values expert_shard(const Experiment& experiment, const LayerWeights& weights, int rank);

// Writes elements [first, first + to.size()) of a tensor. Thread-safe, and the same whether numbers are held or drawn
// now. Refers to the experiment and the data that it was made from.
using Numbers = std::function<void(std::int64_t first, std::span<double> to)>;
Numbers dense_numbers(const Experiment& experiment, const ModelData& data, int layer, int rank);   // dense_shard
Numbers expert_numbers(const Experiment& experiment, const ModelData& data, int layer, int rank);  // expert_shard
Numbers router_numbers(const Experiment& experiment, const ModelData& data, int layer);
Numbers norm_numbers(const Experiment& experiment, const ModelData& data, int layer);  // layer = layers: the final one
enum class End { Embedding, Head };
Numbers end_numbers(const Experiment& experiment, const ModelData& data, End end, int rank);  // this rank's words
// The words of a micro-batch of the rank's model-parallel group, and then those after them.
Numbers word_numbers(const Experiment& experiment, const ModelData& data, int micro_batch, int micro_batches, int rank);
Numbers input_numbers(const ModelData& data, bool gradient);  // of all data ranks; else the output's gradient

}  // namespace dovetail::exec
