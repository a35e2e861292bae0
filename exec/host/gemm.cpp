// SPDX-License-Identifier: Apache-2.0
#include "exec/host/gemm.hpp"

#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"

#if DOVETAIL_HAS_OPENBLAS
#include <cblas.h>
#else
#include <Eigen/Core>
#endif

namespace dovetail::exec {
namespace {

#if DOVETAIL_HAS_OPENBLAS
// Each rank is a thread already.
const bool single_threaded = (openblas_set_num_threads(1), true);

CBLAS_TRANSPOSE flag(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

void product(const Factor<float>& a, const Factor<float>& b, Matrix<float> c, float beta) {
  cblas_sgemm(CblasRowMajor, flag(a.transposed), flag(b.transposed), static_cast<int>(c.rows), static_cast<int>(c.cols),
              static_cast<int>(a.cols()), 1.0F, a.matrix.data, static_cast<int>(a.matrix.stride), b.matrix.data,
              static_cast<int>(b.matrix.stride), beta, c.data, static_cast<int>(c.stride));
}

void product(const Factor<double>& a, const Factor<double>& b, Matrix<double> c, double beta) {
  cblas_dgemm(CblasRowMajor, flag(a.transposed), flag(b.transposed), static_cast<int>(c.rows), static_cast<int>(c.cols),
              static_cast<int>(a.cols()), 1.0, a.matrix.data, static_cast<int>(a.matrix.stride), b.matrix.data,
              static_cast<int>(b.matrix.stride), beta, c.data, static_cast<int>(c.stride));
}
#else
template <class Scalar>
using Dense = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Scalar>
auto view(Matrix<const Scalar> m) {
  return Eigen::Map<const Dense<Scalar>, 0, Eigen::OuterStride<>>(m.data, m.rows, m.cols,
                                                                  Eigen::OuterStride<>(m.stride));
}

template <class Scalar>
void product(const Factor<Scalar>& a, const Factor<Scalar>& b, Matrix<Scalar> c, Scalar beta) {
  Eigen::Map<Dense<Scalar>, 0, Eigen::OuterStride<>> result(c.data, c.rows, c.cols, Eigen::OuterStride<>(c.stride));
  if (beta == Scalar(0)) result.setZero();
  const auto left = view(a.matrix), right = view(b.matrix);
  if (a.transposed && b.transposed)
    result.noalias() += left.transpose() * right.transpose();
  else if (a.transposed)
    result.noalias() += left.transpose() * right;
  else if (b.transposed)
    result.noalias() += left * right.transpose();
  else
    result.noalias() += left * right;
}
#endif

}  // namespace

template <class Scalar>
void multiply(const std::type_identity_t<Factor<Scalar>>& a, const std::type_identity_t<Factor<Scalar>>& b,
              Matrix<Scalar> c, Into into) {
  check(a.rows() == c.rows && b.cols() == c.cols && a.cols() == b.rows(), "shapes of a matrix product");
  if (c.rows == 0 || c.cols == 0) return;
  product(a, b, c, into == Into::Add ? Scalar(1) : Scalar(0));
}

template void multiply<float>(const Factor<float>&, const Factor<float>&, Matrix<float>, Into);
template void multiply<double>(const Factor<double>&, const Factor<double>&, Matrix<double>, Into);

}  // namespace dovetail::exec
