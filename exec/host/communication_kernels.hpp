// SPDX-License-Identifier: Apache-2.0
// Ops that exchange data between ranks: what one rank asks of its communicator.
#pragma once
#include "exec/host/op_kernels.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail::exec {

// `op` is the context's op, lowered for its rank.
template <class Scalar>
void communicate(OpContext<Scalar>& context, const LoweredOp& op);

}  // namespace dovetail::exec
