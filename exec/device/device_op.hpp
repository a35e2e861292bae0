// The work of an op on a device, taken down operand by operand as models/schedule/operands.md says; the counterpart of
// op_kernels.hpp for devices. Instantiated for double, float and Bf16.
#pragma once
#include "exec/device/order_bodies.hpp"
#include "exec/device/recorder.hpp"
#include "exec/host/matrix.hpp"
#include "exec/host/op_operands.hpp"

namespace dovetail::exec {

// One op on one rank. Tensors consist of Scalars; those of is_wide of Wide<Scalar>.
template <class Scalar>
struct DeviceOp : OpOperands {
  const std::vector<void*>& tensors;  // of this rank, by TensorId
  Recorder& out;

  template <class Item = Scalar>
  const Item* read(std::size_t i) const {
    return static_cast<const Item*>(tensors[static_cast<std::size_t>(reads()[i])]);
  }
  template <class Item = Scalar>
  Item* write(std::size_t i) const {
    return static_cast<Item*>(tensors[static_cast<std::size_t>(writes()[i])]);
  }
};

// Routing, scores and their gradients, log_sum_exp, optimizer states: fp32 at least.
bool is_wide(TensorKind kind);
// How a device that computes in `scalar` stores a tensor: messages that are compressed in their own format.
Stored stored_as(const Tensor& tensor, Stored scalar);

// Throws InputError for what no device executes: modules known only by their times.
void require_device_ops(const Schedule& schedule);

// Of ops that move no data between ranks.
template <class Scalar>
void record_op(DeviceOp<Scalar>& op);

// Parts of it, by file.
template <class Scalar>
void record_projection(DeviceOp<Scalar>& op);
template <class Scalar>
void record_attention(DeviceOp<Scalar>& op);
template <class Scalar>
void record_gate(DeviceOp<Scalar>& op);
template <class Scalar>
void record_encode(DeviceOp<Scalar>& op);
template <class Scalar>
void record_decode(DeviceOp<Scalar>& op);
// Encode and decode with dense weights: the one that the first operands after the tokens, or the gradients, say.
template <class Scalar>
void record_dense_encode(DeviceOp<Scalar>& op);
template <class Scalar>
void record_dense_decode(DeviceOp<Scalar>& op);
// Adds up what an op reads before its routing or dense weights, of its part's tokens; returns where those are.
template <class Scalar>
std::size_t record_gradient_sum(const DeviceOp<Scalar>& op, Scalar* to);
// Of a routing; where experts choose, in a table that is made first.
template <class Scalar>
TokenEntries token_entries(const DeviceOp<Scalar>& op, const Wide<Scalar>* routing);
template <class Scalar>
void record_expert(DeviceOp<Scalar>& op);
template <class Scalar>
void record_restore_hidden(DeviceOp<Scalar>& op);
template <class Scalar>
void record_dense_ffn(DeviceOp<Scalar>& op);

// sum = a + b
template <class Scalar>
void record_sum(Recorder& out, const Scalar* a, const Scalar* b, Scalar* sum, std::int64_t count);

// (T, M), or the rows of the op's part in a tensor of all tokens.
template <class Scalar>
const Scalar* read_tokens(const DeviceOp<Scalar>& op, std::size_t i) {
  const bool part = op.part.chunk >= 0 && op.read_tensor(i).chunk < 0;
  return op.read(i) + (part ? op.part.tokens.first * op.shape.hidden : 0);
}
template <class Scalar>
Scalar* write_tokens(const DeviceOp<Scalar>& op, std::size_t i) {
  const bool part = op.part.chunk >= 0 && op.write_tensor(i).chunk < 0;
  return op.write(i) + (part ? op.part.tokens.first * op.shape.hidden : 0);
}

#define DOVETAIL_FOR_DEVICE(function)        \
  template void function(DeviceOp<double>&); \
  template void function(DeviceOp<float>&);  \
  template void function(DeviceOp<Bf16>&)

}  // namespace dovetail::exec
