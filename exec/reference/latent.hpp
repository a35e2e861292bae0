// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of latent attention in the reference, token by token (DeepSeek-V2, arXiv:2405.04434,
// equations 9 to 19; its norms of the low ranks follow section 2.1.4).
#pragma once
#include "exec/reference/attention_pass.hpp"

namespace dovetail::exec::naive {

// Fills query, key and value of the pass, and what the backward pass needs.
void make_latent_heads(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass);
// Takes the gradients of query, key and value and returns that of x. Adds to the gradients of the weights.
Values latent_heads_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                             AttentionPass& d, LayerWeights& gradient);

}  // namespace dovetail::exec::naive
