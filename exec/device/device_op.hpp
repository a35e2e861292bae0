// SPDX-License-Identifier: Apache-2.0
// The work of an op on a device, taken down with operands by their roles (models/schedule/operands.hpp); the
// counterpart of op_kernels.hpp for devices. Instantiated for double, float and Bf16.
#pragma once
#include "exec/device/order_bodies.hpp"
#include "exec/device/recorder.hpp"
#include "exec/step/matrix.hpp"
#include "exec/step/op_operands.hpp"

namespace dovetail::exec {

// One op on one rank. Tensors consist of Scalars; those that are wide (tensor_kind.hpp) of Wide<Scalar>.
template <class Scalar>
struct DeviceOp : OpOperands {
  const IdVector<TensorId, void*>& tensors;  // of this rank
  Recorder& out;
  const void* adam_scales = nullptr;  // see DeviceMemory

  template <class Item = Scalar>
  Item* data(TensorId id) const {
    return id.exists() ? static_cast<Item*>(tensors[id]) : nullptr;
  }
  template <class Item = Scalar>
  const Item* read(Role role) const {
    return data<Item>(read_id(role));
  }
  template <class Item = Scalar>
  Item* write(Role role) const {
    return data<Item>(write_id(role));
  }
};

// How a device that computes in `scalar` stores a tensor: messages that are compressed in their own format.
Stored stored_as(const Tensor& tensor, Stored scalar);

// Throws InputError for what no device executes: modules known only by their times.
void require_device_ops(const Experiment& experiment, const Schedule& schedule);

// Records ops that move no data between ranks.
template <class Scalar>
void record_op(DeviceOp<Scalar>& op);

// Parts of it, by file.
template <class Scalar>
void record_projection(DeviceOp<Scalar>& op);
template <class Scalar>
void record_latent_projection(DeviceOp<Scalar>& op);
template <class Scalar>
void record_attention(DeviceOp<Scalar>& op);
template <class Scalar>
void record_query_key_norm(DeviceOp<Scalar>& op);
template <class Scalar>
void record_gate(DeviceOp<Scalar>& op);
template <class Scalar>
void record_encode(DeviceOp<Scalar>& op);
template <class Scalar>
void record_decode(DeviceOp<Scalar>& op);
// Encode and decode with dense weights.
template <class Scalar>
void record_dense_encode(DeviceOp<Scalar>& op);
template <class Scalar>
void record_dense_decode(DeviceOp<Scalar>& op);
// Adds up the gradients from above that a decode reads, of its part's tokens.
template <class Scalar>
void record_gradient_sum(const DeviceOp<Scalar>& op, Scalar* to);
// The choices of a routing; if experts choose, they are in a table that is made first.
template <class Scalar>
TokenEntries token_entries(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing);
template <class Scalar>
void record_expert(DeviceOp<Scalar>& op);
template <class Scalar>
void record_restore_hidden(DeviceOp<Scalar>& op);
template <class Scalar>
void record_dense_ffn(DeviceOp<Scalar>& op);
template <class Scalar>
void record_norm(DeviceOp<Scalar>& op);
template <class Scalar>
void record_embedding(DeviceOp<Scalar>& op);
template <class Scalar>
void record_mtp_projection(DeviceOp<Scalar>& op);
template <class Scalar>
void record_output_head(DeviceOp<Scalar>& op);
template <class Scalar>
void record_loss_statistics(DeviceOp<Scalar>& op);
template <class Scalar>
void record_loss(DeviceOp<Scalar>& op);

// The gate's own tensor, or its range of those that all ranks hold alike.
template <class Scalar>
Scalar* router_gradient(const DeviceOp<Scalar>& op) {
  return op.write(roles::router_gradient) + op.op.gradients.first;
}

// sum = a + b
template <class Scalar>
void record_sum(Recorder& out, const Scalar* a, const Scalar* b, Scalar* sum, std::int64_t count);

// (T, M), or the rows of the op's part in a tensor of all tokens.
template <class Scalar>
Scalar* tokens_of(const DeviceOp<Scalar>& op, TensorId id) {
  const bool part = op.part.chunk >= 0 && op.tensor(id).chunk < 0;
  return op.data(id) + (part ? op.part.tokens.first * op.shape.hidden : 0);
}
template <class Scalar>
const Scalar* read_tokens(const DeviceOp<Scalar>& op, Role role) {
  return tokens_of(op, op.read_id(role));
}
template <class Scalar>
Scalar* write_tokens(const DeviceOp<Scalar>& op, Role role) {
  return tokens_of(op, op.write_id(role));
}

#define DOVETAIL_FOR_DEVICE(function)        \
  template void function(DeviceOp<double>&); \
  template void function(DeviceOp<float>&);  \
  template void function(DeviceOp<Bf16>&)

}  // namespace dovetail::exec
