// SPDX-License-Identifier: Apache-2.0
// Norms of queries and keys over all heads of a token, which several model-parallel ranks share: each adds up its part,
// the schedule sums the parts over the ranks, and each norms its own columns.
#pragma once
#include <algorithm>

#include "exec/host/end_kernels.hpp"
#include "exec/host/op_context.hpp"
#include "exec/host/rotary.hpp"
#include "exec/step/projection_columns.hpp"

namespace dovetail::exec {

// This rank's columns of queries or keys, without heads that pad its share, and their part of the weights.
struct WidthPart {
  std::int64_t columns;  // of queries or keys here
  std::int64_t weights;  // where those of these columns begin, behind those of the layer's two norms
  std::int64_t all;      // elements that the norm goes over
  int sum;               // column of query_key_sums
};

inline WidthPart width_part(std::int64_t share, std::int64_t all, std::int64_t before, int rank, int sum) {
  const std::int64_t first = std::min(rank * share, all);
  return {std::min(share, all - first), before + first, all, sum};
}
template <class Scalar>
WidthPart query_part(const OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  return width_part(s.query_width(), s.all_heads * s.head_size, 0, c.rank % c.schedule.groups.mp, 0);
}
template <class Scalar>
WidthPart key_part(const OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  return width_part(s.key_width(), s.all_kv_heads * s.head_size, s.all_heads * s.head_size,
                    c.rank % c.schedule.groups.mp, 1);
}

template <class Scalar, class Item>
Matrix<Item> width_sums(const OpContext<Scalar>& c, Item* sums) {
  return {sums, c.shape.sequence_tokens(), 2};
}

template <class Scalar>
const Scalar* width_weights(const OpContext<Scalar>& c, const WidthPart& part) {
  return c.read(TensorKind::NormWeights) + 2 * c.shape.hidden + part.weights;
}

// Sums of squares.
template <class Scalar>
void forward_width_sums(OpContext<Scalar>& c) {
  const ProjectionColumns<const Scalar> from(c.shape, c.read(TensorKind::QueryKeyValue));
  const Matrix<Scalar> sums = width_sums(c, c.write(TensorKind::QueryKeySums));
  const auto add = [&](const WidthPart& part, Matrix<const Scalar> x) {
    for (std::int64_t row = 0; row < x.rows; ++row) {
      Scalar& sum = sums.row(row)[part.sum] = 0;
      for (std::int64_t i = 0; i < part.columns; ++i) sum += x.row(row)[i] * x.row(row)[i];
    }
  };
  add(query_part(c), from.query);
  add(key_part(c), from.key);
}

template <class Scalar>
void forward_width_norm(OpContext<Scalar>& c) {
  const ProjectionColumns<Scalar> columns(c.shape, c.write(TensorKind::QueryKeyValue));
  const Matrix<const Scalar> sums = width_sums(c, c.read(TensorKind::QueryKeySums));
  const auto norm = [&](const WidthPart& part, Matrix<Scalar> x) {
    const Scalar* const weights = width_weights(c, part);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const Scalar r = inverse_root_of(sums.row(row)[part.sum], part.all);
      for (std::int64_t i = 0; i < part.columns; ++i) x.row(row)[i] = weights[i] * x.row(row)[i] * r;
    }
  };
  norm(query_part(c), columns.query);
  norm(key_part(c), columns.key);
}

// The columns of queries and keys before their norms, as query_key_input has them.
template <class Scalar>
ProjectionColumns<const Scalar> before_width_norm(const OpContext<Scalar>& c) {
  const std::int64_t width = c.shape.query_width() + c.shape.key_width();
  const Matrix<const Scalar> all(c.read(TensorKind::QueryKeyInput), c.shape.sequence_tokens(), width);
  return {c.shape, all};  // it has no values
}

// Sums of the products of weights, gradients and inputs. Turns the gradients back first, where the norm's results were
// turned.
template <class Scalar>
void backward_width_sums(OpContext<Scalar>& c) {
  const LayerShape& s = c.shape;
  Scalar* const d_all = c.write(gradient_of(TensorKind::QueryKeyValue));
  const Matrix<Scalar> turned =
      Matrix<Scalar>(d_all, s.sequence_tokens(), s.projected_width()).cols_from(0, s.query_width() + s.key_width());
  if (s.turns_normed()) turn_queries_keys<Scalar>(s, Turn::Back, turned, turned);
  const ProjectionColumns<const Scalar> d(s, d_all), x = before_width_norm(c);
  const Matrix<Scalar> sums = width_sums(c, c.write(gradient_of(TensorKind::QueryKeySums)));
  const auto add = [&](const WidthPart& part, Matrix<const Scalar> gradient, Matrix<const Scalar> input) {
    const Scalar* const weights = width_weights(c, part);
    for (std::int64_t row = 0; row < gradient.rows; ++row) {
      Scalar& sum = sums.row(row)[part.sum] = 0;
      for (std::int64_t i = 0; i < part.columns; ++i) sum += weights[i] * gradient.row(row)[i] * input.row(row)[i];
    }
  };
  add(query_part(c), d.query, x.query);
  add(key_part(c), d.key, x.key);
}

// Adds to the gradients of the weights.
template <class Scalar>
void backward_width_norm(OpContext<Scalar>& c) {
  const ProjectionColumns<Scalar> d(c.shape, c.write(gradient_of(TensorKind::QueryKeyValue)));
  const ProjectionColumns<const Scalar> x = before_width_norm(c);
  const Matrix<const Scalar> squares = width_sums(c, c.read(TensorKind::QueryKeySums)),
                             products = width_sums(c, c.read(gradient_of(TensorKind::QueryKeySums)));
  Scalar* const gradients = c.write(TensorKind::ReplicatedGradients) + c.op.gradients.first;
  const auto back = [&](const WidthPart& part, Matrix<Scalar> gradient, Matrix<const Scalar> input) {
    const Scalar* const weights = width_weights(c, part);
    Scalar* const d_weights = gradients + part.weights;
    for (std::int64_t row = 0; row < gradient.rows; ++row) {
      const Scalar r = inverse_root_of(squares.row(row)[part.sum], part.all);
      const Scalar mean = r * r * products.row(row)[part.sum] / static_cast<Scalar>(part.all);
      Scalar* const g = gradient.row(row);
      const Scalar* const in = input.row(row);
      for (std::int64_t i = 0; i < part.columns; ++i) {
        d_weights[i] += g[i] * in[i] * r;
        g[i] = r * (weights[i] * g[i] - in[i] * mean);
      }
    }
  };
  back(query_part(c), d.query, x.query);
  back(key_part(c), d.key, x.key);
}

}  // namespace dovetail::exec
