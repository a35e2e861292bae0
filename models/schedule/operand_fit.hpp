// SPDX-License-Identifier: Apache-2.0
// Tensors as the operands of a signature, in their order.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "models/base/id.hpp"
#include "models/schedule/op.hpp"
#include "models/schedule/operands.hpp"

namespace dovetail {

// The place of the first tensor that does not fit, and the operand that it should have been; null: there are too many.
struct OperandMisfit {
  std::size_t at = 0;
  const Operand* expected = nullptr;
};

// Calls take(tensor, operand) for each tensor that fits, up to the first that does not.
template <class Take>
std::optional<OperandMisfit> fit_operands(std::span<const Operand* const> operands, std::span<const TensorId> ids,
                                          const IdVector<TensorId, Tensor>& tensors, Take take) {
  std::size_t at = 0;
  for (const Operand* operand : operands) {
    const bool many = operand->count == Count::Some || operand->count == Count::Any;
    const bool needed = operand->count == Count::One || operand->count == Count::Some;
    const std::size_t first = at;
    for (; at < ids.size() && operand->role.covers(tensors[ids[at]]) && (many || at == first); ++at)
      take(ids[at], *operand);
    if (needed && at == first) return OperandMisfit{at, operand};
  }
  if (at == ids.size()) return std::nullopt;
  return OperandMisfit{at};
}

}  // namespace dovetail
