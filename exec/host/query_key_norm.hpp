// SPDX-License-Identifier: Apache-2.0
// The norms of queries and keys, over each head or over all of a token's, and the turn by their positions that follows;
// and those of latent attention's low ranks. Norms over heads that several ranks share are in width_norm.hpp.
#pragma once
#include <algorithm>

#include "exec/host/end_kernels.hpp"
#include "exec/host/op_context.hpp"
#include "exec/host/rotary.hpp"
#include "exec/host/width_norm.hpp"

namespace dovetail::exec {

// visit(first column, columns, place of the weights) for each norm of a token: queries and keys, or their low ranks,
// stand side by side.
template <class Visit>
void for_each_query_key_norm(const LayerShape& s, Visit visit) {
  if (s.makes_low_ranks()) {
    if (s.latent.q_rank > 0) visit(0, s.latent.q_rank, 0);
    return visit(s.latent.q_rank, s.latent.kv_rank, s.latent.q_rank);
  }
  for (std::int64_t first = 0; first < s.query_width(); first += s.query_norm()) visit(first, s.query_norm(), 0);
  for (std::int64_t first = 0; first < s.key_width(); first += s.key_norm())
    visit(s.query_width() + first, s.key_norm(), s.query_norm());
}

// The columns of `values` that have norms: queries, keys and values, or low ranks.
template <class Scalar>
Matrix<Scalar> query_key_columns(const LayerShape& s, Scalar* values) {
  if (s.makes_low_ranks()) return {values, s.rank_tokens, s.latent.q_rank + s.latent.kv_rank, s.low_rank_width()};
  return {values, s.sequence_tokens(), s.query_width() + s.key_width(), s.projected_width()};
}

// The weights, or their place among gradients, follow those of the layer's two norms.
template <class Scalar>
void forward_query_key_norm(OpContext<Scalar>& c) {
  if (c.find_write(TensorKind::QueryKeySums).exists()) return forward_width_sums(c);
  const LayerShape& s = c.shape;
  const Matrix<Scalar> normed = query_key_columns(s, c.write(roles::query_key_normed));
  const Matrix<Scalar> input(c.write(TensorKind::QueryKeyInput), normed.rows, normed.cols);
  for (std::int64_t row = 0; row < input.rows; ++row) std::copy_n(normed.row(row), input.cols, input.row(row));
  const Scalar* const weights = c.read(TensorKind::NormWeights) + 2 * s.hidden;
  if (c.find_read(TensorKind::QueryKeySums).exists())
    forward_width_norm(c);
  else
    for_each_query_key_norm(s, [&](std::int64_t first, std::int64_t size, std::int64_t at) {
      norm_forward<Scalar>({weights + at, size}, input.cols_from(first, size), normed.cols_from(first, size));
    });
  if (s.turns_normed()) turn_queries_keys<Scalar>(s, Turn::On, normed, normed);
}

template <class Scalar>
void backward_query_key_norm(OpContext<Scalar>& c) {
  if (c.find_write(gradient_of(TensorKind::QueryKeySums)).exists()) return backward_width_sums(c);
  if (c.find_read(TensorKind::QueryKeySums).exists()) return backward_width_norm(c);
  const LayerShape& s = c.shape;
  const Matrix<Scalar> d = query_key_columns(s, c.write(gradient_of(roles::query_key_normed)));
  const Matrix<const Scalar> input(c.read(TensorKind::QueryKeyInput), d.rows, d.cols);
  const Scalar* const weights = c.read(TensorKind::NormWeights) + 2 * s.hidden;
  Scalar* const gradients = c.write(TensorKind::ReplicatedGradients) + c.op.gradients.first;
  if (s.turns_normed()) turn_queries_keys<Scalar>(s, Turn::Back, d, d);
  for_each_query_key_norm(s, [&](std::int64_t first, std::int64_t size, std::int64_t at) {
    const Matrix<Scalar> in_place = d.cols_from(first, size);
    norm_backward<Scalar>({weights + at, size}, input.cols_from(first, size), in_place, in_place, gradients + at);
  });
}

}  // namespace dovetail::exec
