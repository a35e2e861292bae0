// SPDX-License-Identifier: Apache-2.0
// From a gate's logits to the scores of choices, or to the weights of a soft gate, and back; in double.
#pragma once
#include <span>
#include <vector>

#include "exec/reference/routing.hpp"

namespace dovetail::exec {

// Softmax over a token's logits, in place.
void softmax(std::span<double> logits);

// The scores of every expert for every token (tokens, E): sigmoids, or a softmax over the experts.
std::vector<double> expert_scores(const LayerShape& shape, std::vector<double> logits);

// The scores of the choices, divided by their sum over the token's choices if the gate says so.
std::vector<double> choice_scores(const LayerShape& shape, const std::vector<double>& expert_scores,
                                  const Routing& routing);

// From the gradient of the choices' scores to that of the logits.
std::vector<double> choice_scores_backward(const LayerShape& shape, const std::vector<double>& expert_scores,
                                           const Routing& routing, const std::vector<double>& d_scores);

// A soft gate's weights (tokens, E, C): how much of each token a slot holds (softmax over the tokens), and how much of
// each slot's result a token gets (softmax over all slots).
struct SoftWeights {
  std::vector<double> dispatch, combine;
};
SoftWeights soft_weights(const LayerShape& shape, const std::vector<double>& logits);
std::vector<double> soft_weights_backward(const LayerShape& shape, const SoftWeights& weights,
                                          const SoftWeights& gradient);

}  // namespace dovetail::exec
