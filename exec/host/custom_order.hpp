// SPDX-License-Identifier: Apache-2.0
// An order of the user's own (models/extend/custom_order.hpp) in the place of encode and decode, with rows that lie in
// chunks, and with conversion to double. Operands are those of the functions without `custom` in host_kernels.hpp.
#pragma once
#include "exec/host/host_kernels.hpp"

namespace dovetail::exec {

template <class Scalar>
void custom_encode(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                   std::span<const Chunk<Scalar>> encoded);
template <class Scalar>
void custom_encode_backward(const LayerShape& shape, const Scalar* routing,
                            std::span<const Chunk<const Scalar>> d_encoded, Matrix<Scalar> d_moe_input);
template <class Scalar>
void custom_decode(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                   std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output);
template <class Scalar>
void custom_decode_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* routing,
                            std::span<const Chunk<const Scalar>> combined, Scalar* score_gradient,
                            std::span<const Chunk<Scalar>> d_combined);

}  // namespace dovetail::exec
