// SPDX-License-Identifier: Apache-2.0
// The small parts that the reference is made of: products and sums in plain loops, and the sizes of a step.
#pragma once
#include <cstddef>

#include "exec/reference/model_data.hpp"
#include "exec/run/compute_rules.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::exec::naive {

using Size = std::size_t;

// y += x W, for W (rows, cols).
inline void add_product(const double* x, const double* w, Size rows, Size cols, double* y) {
  for (Size i = 0; i < rows; ++i)
    for (Size j = 0; j < cols; ++j) y[j] += x[i] * w[i * cols + j];
}

// dx += dy W^T and dW += x^T dy.
inline void add_gradients(const double* x, const double* w, const double* dy, Size rows, Size cols, double* dx,
                          double* dw) {
  for (Size i = 0; i < rows; ++i) {
    double sum = 0;
    for (Size j = 0; j < cols; ++j) {
      sum += w[i * cols + j] * dy[j];
      dw[i * cols + j] += x[i] * dy[j];
    }
    dx[i] += sum;
  }
}

inline double dot(const double* a, const double* b, Size count) {
  double sum = 0;
  for (Size i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

inline void add_scaled(double scale, const double* x, Size count, double* y) {
  for (Size i = 0; i < count; ++i) y[i] += scale * x[i];
}

struct Sizes {
  Size tokens, sequence, hidden, heads, kv_heads, head_size, expert_hidden, tokens_of_part;
  Size value_size;
  Size q_rank, kv_rank, nope, rope;  // of latent attention, else 0; q_rank 0: queries are made from the input
  QkNorm qk_norm;
  bool low_rank_norms;  // of latent attention
  bool rotary;          // queries and keys are turned by their positions
  // `e` is of one micro-batch, each of whose token_ranks() holds a part of the tokens.
  Sizes(const Experiment& e, const ComputeRules& r)
      : tokens_of_part(static_cast<Size>(layer_volumes(e).tokens)),
        rules(r),
        parts(token_parts(layer_volumes(e), r.token_chunks)) {
    tokens = tokens_of_part * static_cast<Size>(e.parallelism.token_ranks() * r.micro_batches);
    sequence = static_cast<Size>(e.workload.sequence);
    hidden = static_cast<Size>(e.model.hidden);
    heads = static_cast<Size>(e.model.attention.heads);
    kv_heads = static_cast<Size>(e.model.attention.kv_heads);
    head_size = static_cast<Size>(e.model.attention.head_size);
    expert_hidden = static_cast<Size>(e.model.expert_hidden);
    value_size = static_cast<Size>(e.model.attention.value_head_size());
    q_rank = static_cast<Size>(e.model.attention.q_rank);
    kv_rank = static_cast<Size>(e.model.attention.kv_rank);
    nope = static_cast<Size>(e.model.attention.nope_size);
    rope = static_cast<Size>(e.model.attention.rope_size);
    low_rank_norms = rotary = e.workload.whole_layers();
    qk_norm = e.workload.whole_layers() ? e.model.attention.qk_norm : QkNorm::None;
  }
  ComputeRules rules;
  std::vector<TokenPart> parts;
  Size queries() const { return heads * head_size; }
  Size keys() const { return kv_heads * head_size; }
  Size values() const { return kv_heads * value_size; }
  Size contexts() const { return heads * value_size; }
  bool makes_low_ranks() const { return kv_rank > 0; }
  // The places of the weights of the norms of queries and keys, behind those of the layer's two norms.
  Size query_norm() const { return qk_norm == QkNorm::Head ? head_size : queries(); }
  Size key_norm() const { return qk_norm == QkNorm::Head ? head_size : keys(); }
};

}  // namespace dovetail::exec::naive
