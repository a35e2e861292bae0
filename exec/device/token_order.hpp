// SPDX-License-Identifier: Apache-2.0
// Rows of tokens by sample and position, which tensors may hold in another order (token_rows()).
#pragma once
#include <vector>

#include "exec/device/device_op.hpp"
#include "exec/device/tensor_bodies.hpp"

namespace dovetail::exec {

inline bool in_order(std::span<const std::int64_t> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

template <class Scalar>
const std::int64_t* table_of_rows(const DeviceOp<Scalar>& op) {
  return op.out.table(std::vector<std::int64_t>(op.rows.begin(), op.rows.end()));
}

// The tensor's rows of `cols` elements by position; scratch memory takes them if they are in another order.
template <class Scalar>
Matrix<const Scalar> ordered_rows(const DeviceOp<Scalar>& op, const Scalar* input, std::int64_t cols) {
  const std::int64_t count = op.shape.sequence_tokens();
  if (in_order(op.rows)) return {input, count, cols};
  Scalar* const to = op.out.template scratch<Scalar>(count * cols);
  op.out.launch(count, MoveRows<Scalar>{input, to, cols, table_of_rows(op), nullptr});
  return {to, count, cols};
}

// Rows by position that are written first, and then given to a tensor in its order.
template <class Scalar>
class RowsToReturn {
 public:
  RowsToReturn(const DeviceOp<Scalar>& op, Scalar* tensor, std::int64_t cols)
      : op_(op),
        tensor_(tensor),
        rows_(in_order(op.rows) ? tensor : op.out.template scratch<Scalar>(op.shape.sequence_tokens() * cols),
              op.shape.sequence_tokens(), cols) {}
  const Matrix<Scalar>& rows() const { return rows_; }
  void give() const {
    if (!in_order(op_.rows))
      op_.out.launch(rows_.rows, MoveRows<Scalar>{rows_.data, tensor_, rows_.cols, nullptr, table_of_rows(op_)});
  }

 private:
  const DeviceOp<Scalar>& op_;
  Scalar* tensor_;
  Matrix<Scalar> rows_;
};

}  // namespace dovetail::exec
