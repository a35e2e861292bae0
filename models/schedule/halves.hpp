// SPDX-License-Identifier: Apache-2.0
// A backward op in two: the gradients of what it read, and those of its weights.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "models/schedule/op.hpp"

namespace dovetail {

struct HalfOperands {
  std::vector<TensorId> reads, writes;
};
struct OpHalves {
  HalfOperands inputs, weights;
};

// Whether the backward op of this kind has halves (op_table.hpp).
bool has_halves(OpKind kind);

// Divides the operands of a whole backward op. add_between(kind) makes the tensor that the half of the inputs writes
// for that of the weights, where a whole op has none. Throws InternalError unless the operands are those of its kind.
OpHalves halves_of(const IdVector<TensorId, Tensor>& tensors, OpKind kind, std::span<const TensorId> reads,
                   std::span<const TensorId> writes, const std::function<TensorId(TensorKind)>& add_between);

}  // namespace dovetail
