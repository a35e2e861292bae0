// SPDX-License-Identifier: Apache-2.0
// From an op of a schedule to the kernel that does it, with operands by their roles (models/schedule/operands.hpp).
#pragma once
#include <span>
#include <vector>

#include "exec/host/end_kernels.hpp"
#include "exec/host/host_kernels.hpp"
#include "exec/host/op_context.hpp"

namespace dovetail::exec {

template <class Scalar>
using OpKernel = void (*)(OpContext<Scalar>&);

// The functions that do an op in each pass; null where it has no such pass.
template <class Scalar>
struct KernelEntry {
  OpKind kind;
  OpKernel<Scalar> forward, backward;
};
template <class Scalar>
OpKernel<Scalar> find_kernel(std::span<const KernelEntry<Scalar>> table, const Op& op) {
  for (const KernelEntry<Scalar>& entry : table)
    if (entry.kind == op.kind) return op.phase == Phase::Forward ? entry.forward : entry.backward;
  return nullptr;
}

// The kernel of an op that stays on its rank; throws InternalError for a pair that no kernel exists for.
template <class Scalar>
OpKernel<Scalar> kernel_of(const Op& op);

}  // namespace dovetail::exec
