// SPDX-License-Identifier: Apache-2.0
// The columns of what attention projects: queries, keys and values side by side, and before them the low ranks of
// latent attention.
#pragma once
#include "exec/step/layer_shape.hpp"
#include "exec/step/matrix.hpp"

namespace dovetail::exec {

// (L, Q + K + V)
template <class Scalar>
struct ProjectionColumns {
  Matrix<Scalar> query, key, value;
  ProjectionColumns(const LayerShape& s, Matrix<Scalar> all)
      : query(all.cols_from(0, s.query_width())),
        key(all.cols_from(s.query_width(), s.key_width())),
        value(all.cols_from(s.query_width() + s.key_width(), s.value_width())) {}
  ProjectionColumns(const LayerShape& s, Scalar* all)
      : ProjectionColumns(s, Matrix<Scalar>(all, s.sequence_tokens(), s.projected_width())) {}
};

// (tokens, R): what queries are made from, what keys and values are made from, and the keys' part with positions, which
// is one for all heads.
template <class Scalar>
struct LowRankColumns {
  Matrix<Scalar> query, key_value, position;  // `query` has no columns where queries are made from the input
  LowRankColumns(const LayerShape& s, Matrix<Scalar> all)
      : query(all.cols_from(0, s.latent.q_rank)),
        key_value(all.cols_from(s.latent.q_rank, s.latent.kv_rank)),
        position(all.cols_from(s.latent.q_rank + s.latent.kv_rank, s.latent.rope)) {}
};

}  // namespace dovetail::exec
