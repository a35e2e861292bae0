// SPDX-License-Identifier: Apache-2.0
// Matrix products as a device's library takes them: row-major matrices, any of the formats, strided batches.
#pragma once
#include "exec/device/element.hpp"
#include "exec/host/gemm.hpp"

namespace dovetail::exec {

// `count` products; the i-th works `i` times these many elements further on.
struct Batch {
  std::int64_t count = 1;
  std::int64_t a = 0, b = 0, c = 0;
};

// C (m, n) = A (m, k) B (k, n), or added to C. A and B have one format; C that or a wider one.
struct Product {
  struct Side {
    const void* data = nullptr;
    std::int64_t stride = 0;
    bool transposed = false;
  };
  Side a, b;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t m = 0, n = 0, k = 0;
  Stored factors = Stored::Float, result = Stored::Float;
  bool add = false;
  Batch batch;
};

// Throws InternalError where shapes do not fit.
template <class Scalar, class Result>
Product product(const std::type_identity_t<Factor<Scalar>>& a, const std::type_identity_t<Factor<Scalar>>& b,
                Matrix<Result> c, Into into = Into::Overwrite, const Batch& batch = {}) {
  check(a.rows() == c.rows && b.cols() == c.cols && a.cols() == b.rows(), "shapes of a matrix product");
  return {{a.matrix.data, a.matrix.stride, a.transposed},
          {b.matrix.data, b.matrix.stride, b.transposed},
          c.data,
          c.stride,
          c.rows,
          c.cols,
          a.cols(),
          StoredOf<Scalar>::value,
          StoredOf<Result>::value,
          into == Into::Add,
          batch};
}

// The same in BLAS's terms, whose matrices are column-major: C' (n, m) = B' A', where X' is X as it lies in memory.
struct BlasCall {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  Stored factors = Stored::Float, result = Stored::Float;
  bool add = false;
};
BlasCall blas_call(const Product& p);

// The work of a BLAS library in plain loops, for tests of everything around it.
void multiply_plainly(const BlasCall& call);

}  // namespace dovetail::exec
