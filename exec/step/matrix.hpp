// SPDX-License-Identifier: Apache-2.0
// A view of a row-major matrix, or of a block of one.
#pragma once
#include <cstdint>
#include <type_traits>

namespace dovetail::exec {

template <class Scalar>
struct Matrix {
  Scalar* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t stride = 0;  // from a row to the next, in elements

  Matrix() = default;
  Matrix(Scalar* first, std::int64_t row_count, std::int64_t col_count)
      : data(first), rows(row_count), cols(col_count), stride(col_count) {}
  Matrix(Scalar* first, std::int64_t row_count, std::int64_t col_count, std::int64_t row_stride)
      : data(first), rows(row_count), cols(col_count), stride(row_stride) {}

  Scalar* row(std::int64_t i) const { return data + i * stride; }
  Matrix rows_from(std::int64_t first, std::int64_t count) const { return {row(first), count, cols, stride}; }
  Matrix cols_from(std::int64_t first, std::int64_t count) const { return {data + first, rows, count, stride}; }

  operator Matrix<const Scalar>() const requires(!std::is_const_v<Scalar>) { return {data, rows, cols, stride}; }
};

}  // namespace dovetail::exec
