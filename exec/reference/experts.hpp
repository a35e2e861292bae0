// SPDX-License-Identifier: Apache-2.0
// Experts and dense feed-forward parts of the reference, row by row.
#pragma once
#include "exec/reference/naive.hpp"
#include "exec/step/layer_shape.hpp"

namespace dovetail::exec::naive {

struct ExpertPass {
  Values h1, h3, activation, output;
  std::vector<Values> kept = {};  // by shard, of an expert of the user's own
};

// Two or three matrices (`weights.w1` to `w3`), of expert e of them.
ExpertPass feed_forward(const Sizes& s, const LayerWeights& weights, Size e, const double* x);
// Adds to d_x and to the gradient.
void feed_forward_backward(const Sizes& s, const LayerWeights& weights, Size e, const double* x, const ExpertPass& pass,
                           const double* d_output, double* d_x, LayerWeights& gradient);

// A routed expert: the same or, where the shape has one, the user's own, whose functions see one row at a time.
ExpertPass routed_expert(const LayerShape& shape, const Sizes& s, const LayerWeights& weights, Size e, const double* x);
void routed_expert_backward(const LayerShape& shape, const Sizes& s, const LayerWeights& weights, Size e,
                            const double* x, const ExpertPass& pass, const double* d_output, double* d_x,
                            LayerWeights& gradient);

}  // namespace dovetail::exec::naive
