// SPDX-License-Identifier: Apache-2.0
// The projection of multi-token prediction: its input (L, 2M) by the rank's columns of the weights (2M, M / mp).
#pragma once
#include "exec/host/gemm.hpp"
#include "exec/host/op_context.hpp"

namespace dovetail::exec {

template <class Scalar>
Matrix<const Scalar> mtp_input(const OpContext<Scalar>& c) {
  return {c.read(roles::mtp_input), c.shape.sequence_tokens(), 2 * c.shape.hidden};
}
template <class Scalar>
Matrix<const Scalar> mtp_weights(const OpContext<Scalar>& c) {
  return {c.read(TensorKind::DenseWeights) + parameters_before_projection(c), 2 * c.shape.hidden,
          c.shape.hidden / c.schedule.groups.mp};
}

template <class Scalar>
void forward_mtp_projection(OpContext<Scalar>& c) {
  const Matrix<const Scalar> weights = mtp_weights(c);
  multiply(mtp_input(c), weights, Matrix<Scalar>(c.write(roles::mtp_output), c.shape.sequence_tokens(), weights.cols));
}

// Adds to the gradient of the weights.
template <class Scalar>
void backward_mtp_projection(OpContext<Scalar>& c) {
  const Matrix<const Scalar> weights = mtp_weights(c);
  const std::int64_t rows = c.shape.sequence_tokens();
  const Matrix<const Scalar> d_output(c.read(gradient_of(roles::mtp_output)), rows, weights.cols);
  const Matrix<Scalar> d_weights(c.write(TensorKind::DenseGradients) + c.op.gradients.first, weights.rows,
                                 weights.cols);
  multiply(transposed(mtp_input(c)), d_output, d_weights, Into::Add);
  multiply(d_output, transposed(weights), Matrix<Scalar>(c.write(gradient_of(roles::mtp_input)), rows, weights.rows));
}

}  // namespace dovetail::exec
