// The columns of latent attention's low ranks (R): what queries are made from, what keys and values are made from, and
// the keys' part with positions, which is one for all heads.
#pragma once
#include "exec/step/layer_shape.hpp"
#include "exec/step/matrix.hpp"

namespace dovetail::exec {

template <class Scalar>
struct LowRankColumns {
  Matrix<Scalar> query, key_value, position;  // `query` has no columns where queries are made from the input
  LowRankColumns(const LayerShape& s, Matrix<Scalar> all)
      : query(all.cols_from(0, s.latent.q_rank)),
        key_value(all.cols_from(s.latent.q_rank, s.latent.kv_rank)),
        position(all.cols_from(s.latent.q_rank + s.latent.kv_rank, s.latent.rope)) {}
};

}  // namespace dovetail::exec
