// SPDX-License-Identifier: Apache-2.0
// Rows of tokens by sample and position, which tensors may hold in another order (token_rows()).
#pragma once
#include <algorithm>
#include <span>

#include "exec/step/matrix.hpp"

namespace dovetail::exec {

// Row i of `to` is row rows[i] of `from`.
template <class Scalar>
void order_rows(Matrix<const Scalar> from, std::span<const std::int64_t> rows, Matrix<Scalar> to) {
  for (std::int64_t i = 0; i < to.rows; ++i)
    std::copy_n(from.row(rows[static_cast<std::size_t>(i)]), to.cols, to.row(i));
}

// The other way.
template <class Scalar>
void return_rows(Matrix<const Scalar> from, std::span<const std::int64_t> rows, Matrix<Scalar> to) {
  for (std::int64_t i = 0; i < from.rows; ++i)
    std::copy_n(from.row(i), from.cols, to.row(rows[static_cast<std::size_t>(i)]));
}

}  // namespace dovetail::exec
