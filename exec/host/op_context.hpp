// SPDX-License-Identifier: Apache-2.0
// An op of a schedule on one rank of a host, as kernels see it.
#pragma once
#include <functional>

#include "exec/run/sent_bytes.hpp"
#include "exec/step/op_operands.hpp"
#include "exec/transport/transport.hpp"

namespace dovetail::exec {

// With where its tensors lie and how it talks to other ranks.
template <class Scalar>
struct OpContext : OpOperands {
  const IdVector<TensorId, Scalar*>& tensors;  // of this rank
  Communicator* communicator = nullptr;        // of the op's group and stream; null where it talks to no other rank
  double ready = 0;                            // virtual; a collective raises it to the latest of its group
  int training_step = 1;                       // for Adam; counts from 1
  SentBytes traffic = {};                      // of an exchange, which fills it
  // Called once the op has summed up what it works on: the input of a gate, the gradient of a decode's output.
  std::function<void()> amid = {};

  Scalar* data(TensorId id) const { return id.exists() ? tensors[id] : nullptr; }
  const Scalar* read(Role role) const { return data(read_id(role)); }
  Scalar* write(Role role) const { return data(write_id(role)); }
  void call_amid() const {
    if (amid) amid();
  }
};

}  // namespace dovetail::exec
