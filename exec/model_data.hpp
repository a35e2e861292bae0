// Weights, inputs and loss gradients of an experiment in double, whole (not split over ranks), and what part of
// them each rank holds.
#pragma once
#include <cstdint>
#include <vector>

#include "models/experiment.hpp"

namespace dovetail::exec {

using Values = std::vector<double>;

// Weights of one layer, or their gradients. All heads and experts (of a dense layer none); row-major.
struct LayerWeights {
  Values query, key, value, output;  // (M, heads d), (M, kv_heads d), (M, kv_heads d), (heads d, M)
  Values router;                     // the gate's matrices, as models/operands.md lays them out
  Values w1, w2, w3;                 // (E, M, H), (E, H, M), gated: (E, M, H)
  // Of the dense feed-forward part, where there is one: (M, D), (D, M), gated: (M, D).
  Values dense_w1, dense_w2, dense_w3;
};
LayerWeights zero_weights(const Experiment& experiment, int layer);

// Token t of the whole data belongs to rank t / T: the tokens of a model-parallel group follow one another.
struct ModelData {
  std::vector<LayerWeights> layers;
  Values input;            // (ranks T, M)
  Values output_gradient;  // of the loss by the model's output, (ranks T, M)
};

// Random values that floats hold exactly, so that both number formats start from the same model.
ModelData random_model_data(const Experiment& experiment, std::uint64_t seed);

// The contents of dense_weights and expert_weights of one rank, as models/operands.md lays them out.
Values dense_shard(const Experiment& experiment, const LayerWeights& weights, int rank);
Values expert_shard(const Experiment& experiment, const LayerWeights& weights, int rank);

}  // namespace dovetail::exec
