// SPDX-License-Identifier: Apache-2.0
// Ops of experts: a batched or a grouped kernel on a chunk's rows.
#pragma once
#include "exec/host/op_context.hpp"

namespace dovetail::exec {

template <class Scalar>
void forward_expert(OpContext<Scalar>& c);
template <class Scalar>
void backward_expert(OpContext<Scalar>& c);
template <class Scalar>
void restore_hidden(OpContext<Scalar>& c);

}  // namespace dovetail::exec
