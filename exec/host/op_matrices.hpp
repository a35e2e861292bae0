// SPDX-License-Identifier: Apache-2.0
// The operands of an op as matrices.
#pragma once
#include "exec/host/op_context.hpp"
#include "exec/step/matrix.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

template <class Scalar>
Matrix<Scalar> matrix(const OpContext<Scalar>& c, TensorId id, std::int64_t rows, std::int64_t cols) {
  check(c.tensor(id).elements == rows * cols, "a tensor's size differs from its shape");
  return {c.data(id), rows, cols};
}
template <class Scalar>
Matrix<const Scalar> read_matrix(const OpContext<Scalar>& c, Role role, std::int64_t rows, std::int64_t cols) {
  return matrix(c, c.read_id(role), rows, cols);
}
template <class Scalar>
Matrix<Scalar> write_matrix(const OpContext<Scalar>& c, Role role, std::int64_t rows, std::int64_t cols) {
  return matrix(c, c.write_id(role), rows, cols);
}

// (T, M), or the rows of the op's part in a tensor of all tokens.
template <class Scalar>
Matrix<Scalar> tokens(const OpContext<Scalar>& c, TensorId id) {
  const Tensor& t = c.tensor(id);
  if (c.part.chunk < 0 || t.chunk >= 0) return matrix(c, id, c.shape.tokens, c.shape.hidden);
  return matrix(c, id, t.elements / c.shape.hidden, c.shape.hidden).rows_from(c.part.tokens.first, c.shape.tokens);
}
template <class Scalar>
Matrix<const Scalar> read_tokens(const OpContext<Scalar>& c, Role role) {
  return tokens(c, c.read_id(role));
}
template <class Scalar>
Matrix<Scalar> write_tokens(const OpContext<Scalar>& c, Role role) {
  return tokens(c, c.write_id(role));
}

// Null: a half does not have them.
template <class Scalar>
const Scalar* dense_weights(const OpContext<Scalar>& c) {
  return c.op.half == Half::Weights ? nullptr : c.read(TensorKind::DenseWeights);
}
// The op's range of them.
template <class Scalar>
Scalar* dense_gradients(const OpContext<Scalar>& c) {
  return c.op.half == Half::Inputs ? nullptr : c.write(TensorKind::DenseGradients) + c.op.gradients.first;
}

}  // namespace dovetail::exec
