// SPDX-License-Identifier: Apache-2.0
#include "exec/device/product.hpp"

namespace dovetail::exec {
namespace {

// Sums in double.
template <class Scalar, class Result>
void plain(const BlasCall& call) {
  for (std::int64_t batch = 0; batch < call.batch; ++batch) {
    const Scalar* const a = static_cast<const Scalar*>(call.a) + batch * call.stride_a;
    const Scalar* const b = static_cast<const Scalar*>(call.b) + batch * call.stride_b;
    Result* const c = static_cast<Result*>(call.c) + batch * call.stride_c;
    for (std::int64_t j = 0; j < call.n; ++j)
      for (std::int64_t i = 0; i < call.m; ++i) {
        Result& to = c[j * call.ldc + i];
        double sum = call.add ? wide(to) : 0;
        for (std::int64_t l = 0; l < call.k; ++l)
          sum += static_cast<double>(wide(a[call.transpose_a ? i * call.lda + l : l * call.lda + i])) *
                 wide(b[call.transpose_b ? l * call.ldb + j : j * call.ldb + l]);
        to = narrow<Result>(static_cast<Wide<Result>>(sum));
      }
  }
}

}  // namespace

BlasCall blas_call(const Product& p) {
  return {p.b.transposed, p.a.transposed, p.n,        p.m,           p.k,       p.b.data,  p.a.data,  p.c,
          p.b.stride,     p.a.stride,     p.c_stride, p.batch.count, p.batch.b, p.batch.a, p.batch.c, p.factors,
          p.result,       p.add};
}

void multiply_plainly(const BlasCall& call) {
  if (call.factors == Stored::Double && call.result == Stored::Double) return plain<double, double>(call);
  if (call.factors == Stored::Float && call.result == Stored::Float) return plain<float, float>(call);
  if (call.factors == Stored::Bf16 && call.result == Stored::Bf16) return plain<Bf16, Bf16>(call);
  if (call.factors == Stored::Bf16 && call.result == Stored::Float) return plain<Bf16, float>(call);
  throw InternalError("a matrix product in formats that no library multiplies");
}

}  // namespace dovetail::exec
