// SPDX-License-Identifier: Apache-2.0
// Attention of the reference: every head and token by itself.
#pragma once
#include "exec/reference/attention_pass.hpp"

namespace dovetail::exec::naive {

// sum += attention(x), by sample and position.
void add_attention(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass, Values& sum);
// Takes the gradient of attention(x) and returns that of x. Adds to the gradients of the weights.
Values attention_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                          const Values& d_sum, LayerWeights& gradient);

}  // namespace dovetail::exec::naive
