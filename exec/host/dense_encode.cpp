// SPDX-License-Identifier: Apache-2.0
// Encode and decode as GShard's einsums: matrix products of the tokens, or of the experts' rows, with weights (T, E, C)
// that are 0 nearly everywhere.
#include <algorithm>

#include "exec/host/gemm.hpp"
#include "exec/host/host_kernels.hpp"

namespace dovetail::exec {
namespace {

// visit(weights of one expert's slots in one chunk (T, c), the rows of those slots (c, M)). Weights may be null.
template <class Weight, class Scalar, class Visit>
void for_each_block(const LayerShape& shape, Weight* weights, std::span<const Chunk<Scalar>> chunks, Visit visit) {
  for (const Chunk<Scalar>& chunk : chunks)
    for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
      const std::int64_t count = chunk.rows.size(),
                         first = expert * shape.capacity + chunk.rows.first - shape.first_slot;
      visit(Matrix<Weight>(weights, shape.tokens, shape.slots()).cols_from(first, count),
            Matrix<Scalar>(chunk.data + expert * count * shape.hidden, count, shape.hidden));
    }
}

}  // namespace

template <class Scalar>
void dense_encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* dispatch,
                          std::span<const Chunk<Scalar>> encoded) {
  for_each_block(shape, dispatch, encoded, [&](Matrix<const Scalar> weights, Matrix<Scalar> rows) {
    multiply<Scalar>(transposed(weights), moe_input, rows);
  });
}

template <class Scalar>
void dense_encode_backward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* dispatch,
                           std::span<const Chunk<const Scalar>> d_encoded, Matrix<Scalar> d_moe_input,
                           Scalar* d_dispatch) {
  std::fill_n(d_moe_input.data, d_moe_input.rows * d_moe_input.cols, Scalar(0));
  for_each_block(shape, dispatch, d_encoded, [&](Matrix<const Scalar> weights, Matrix<const Scalar> d_rows) {
    multiply<Scalar>(weights, d_rows, d_moe_input, Into::Add);
  });
  if (d_dispatch == nullptr) return;
  for_each_block(shape, d_dispatch, d_encoded, [&](Matrix<Scalar> d_weights, Matrix<const Scalar> d_rows) {
    multiply<Scalar>(moe_input, transposed(d_rows), d_weights);
  });
}

template <class Scalar>
void dense_decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* combine,
                          std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output) {
  std::copy_n(moe_input.data, shape.tokens * shape.hidden, output.data);
  for_each_block(shape, combine, combined, [&](Matrix<const Scalar> weights, Matrix<const Scalar> rows) {
    multiply<Scalar>(weights, rows, output, Into::Add);
  });
}

template <class Scalar>
void dense_decode_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* combine,
                           std::span<const Chunk<const Scalar>> combined, Scalar* d_combine,
                           std::span<const Chunk<Scalar>> d_combined) {
  for_each_block(shape, combine, d_combined, [&](Matrix<const Scalar> weights, Matrix<Scalar> d_rows) {
    multiply<Scalar>(transposed(weights), output_gradient, d_rows);
  });
  for_each_block(shape, d_combine, combined, [&](Matrix<Scalar> d_weights, Matrix<const Scalar> rows) {
    multiply<Scalar>(output_gradient, transposed(rows), d_weights);
  });
}

template void dense_encode_forward<float>(const LayerShape&, Matrix<const float>, const float*,
                                          std::span<const Chunk<float>>);
template void dense_encode_forward<double>(const LayerShape&, Matrix<const double>, const double*,
                                           std::span<const Chunk<double>>);
template void dense_encode_backward<float>(const LayerShape&, Matrix<const float>, const float*,
                                           std::span<const Chunk<const float>>, Matrix<float>, float*);
template void dense_encode_backward<double>(const LayerShape&, Matrix<const double>, const double*,
                                            std::span<const Chunk<const double>>, Matrix<double>, double*);
template void dense_decode_forward<float>(const LayerShape&, Matrix<const float>, const float*,
                                          std::span<const Chunk<const float>>, Matrix<float>);
template void dense_decode_forward<double>(const LayerShape&, Matrix<const double>, const double*,
                                           std::span<const Chunk<const double>>, Matrix<double>);
template void dense_decode_backward<float>(const LayerShape&, Matrix<const float>, const float*,
                                           std::span<const Chunk<const float>>, float*, std::span<const Chunk<float>>);
template void dense_decode_backward<double>(const LayerShape&, Matrix<const double>, const double*,
                                            std::span<const Chunk<const double>>, double*,
                                            std::span<const Chunk<double>>);

}  // namespace dovetail::exec
