// Attention of the reference: every head and token by itself.
#pragma once
#include "exec/reference/naive.hpp"

namespace dovetail::exec::naive {

struct AttentionPass {
  Values query, key, value, context;  // queries and keys as the scores take them: normed and turned
  // Empty where queries and keys have no norms. Of latent attention: the low ranks before their norms, if any.
  Values query_before_norm, key_before_norm;
  Values query_rank, key_value_rank;  // of latent attention: the low ranks that the projections up read
};

// sum += attention(x), by sample and position.
void add_attention(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass, Values& sum);
// Takes the gradient of attention(x) and returns that of x. Adds to the gradients of the weights.
Values attention_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                          const Values& d_sum, LayerWeights& gradient);

}  // namespace dovetail::exec::naive
