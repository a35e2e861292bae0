// SPDX-License-Identifier: Apache-2.0
// Matrix products on one thread: OpenBLAS where it is built in, else Eigen.
#pragma once
#include "exec/step/matrix.hpp"

namespace dovetail::exec {

// A factor of a product: a matrix or, without moving data, its transpose.
template <class Scalar>
struct Factor {
  Matrix<const Scalar> matrix;
  bool transposed = false;

  Factor(Matrix<const Scalar> m) : matrix(m) {}
  Factor(Matrix<Scalar> m) : matrix(m) {}
  Factor(Matrix<const Scalar> m, bool t) : matrix(m), transposed(t) {}

  std::int64_t rows() const { return transposed ? matrix.cols : matrix.rows; }
  std::int64_t cols() const { return transposed ? matrix.rows : matrix.cols; }
};

template <class Scalar>
Factor<std::remove_const_t<Scalar>> transposed(Matrix<Scalar> m) {
  return {m, true};
}

enum class Into { Overwrite, Add };

// c = a b, or c += a b. c must not overlap a or b. Instantiated for float and double.
template <class Scalar>
void multiply(const std::type_identity_t<Factor<Scalar>>& a, const std::type_identity_t<Factor<Scalar>>& b,
              Matrix<Scalar> c, Into into = Into::Overwrite);

}  // namespace dovetail::exec
