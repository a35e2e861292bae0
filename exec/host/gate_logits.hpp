// SPDX-License-Identifier: Apache-2.0
// From tokens to a gate's logits and back, in double: the part that the gate's weights decide. Layout of the weights
// and formulas: models/schedule/operands.md.
#pragma once
#include <vector>

#include "exec/step/layer_shape.hpp"
#include "exec/step/matrix.hpp"

namespace dovetail::exec {

// The place of these tokens in the whole data: the noise of a noisy gate depends on nothing else.
struct TokenPlace {
  int layer = 0;
  std::int64_t first_token = 0;  // of all ranks' tokens
};

// The logits of x (tokens, M): (tokens, E), for soft_moe (tokens, E C).
std::vector<double> gate_logits(const LayerShape& shape, const TokenPlace& place, Matrix<const double> x,
                                const double* weights);

// Adds what comes through the logits to d_x and d_weights.
void gate_logits_backward(const LayerShape& shape, const TokenPlace& place, Matrix<const double> x,
                          const double* weights, const std::vector<double>& d_logits, Matrix<double> d_x,
                          double* d_weights);

// A standard normal number that only these decide.
double gate_noise(int seed, int layer, std::int64_t token, std::int64_t expert);

}  // namespace dovetail::exec
