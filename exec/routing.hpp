// Which expert takes which token, at which capacity slot. Computed in double, whatever the kernels use, so that
// near ties fall alike everywhere.
#pragma once
#include <span>
#include <vector>

#include "exec/layer_shape.hpp"
#include "exec/matrix.hpp"

namespace dovetail::exec {

// One choice of one token.
struct Choice {
  std::int32_t expert = 0;
  std::int32_t slot = -1;  // among the expert's capacity rows from this rank; -1: dropped
};

// Of the tokens of one rank in one layer: choice j of token t stands at t * top_k + j.
using Routing = std::vector<Choice>;

// Softmax over a token's logits, in place.
void softmax(std::span<double> logits);

// The router's probabilities (tokens, experts) of moe_input (tokens, M) with router_weights (M, experts).
template <class Scalar>
std::vector<double> router_probabilities(Matrix<const Scalar> moe_input, Matrix<const Scalar> router_weights);

// The top_k most probable experts of each token, ties to the lower index; slots by token order, all first
// choices before all second choices; from `first_slot` on, those beyond `capacity` slots are dropped.
Routing route(const std::vector<double>& probabilities, std::int64_t experts, std::int64_t top_k, std::int64_t capacity,
              std::int64_t first_slot = 0);

std::int64_t drop_count(const Routing& routing);

}  // namespace dovetail::exec
