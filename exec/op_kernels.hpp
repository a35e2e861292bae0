// From an op of a schedule to the kernel or collective that does it, with operands in the order of models/operands.md.
#pragma once
#include <span>
#include <vector>

#include "exec/host_kernels.hpp"
#include "exec/transport.hpp"
#include "models/schedule.hpp"

namespace dovetail::exec {

// One op on one rank.
template <class Scalar>
struct OpContext {
  const Schedule& schedule;
  const Op& op;
  const LayerShape& shape;               // with the tokens and slots of `part`
  const TokenPart& part;                 // all tokens, or those of the op's chunk where attention is chunked
  std::span<const std::int64_t> rows;    // see token_rows()
  const std::vector<Scalar*>& tensors;   // of this rank, by TensorId
  const Routing& preset;                 // of this rank and layer, for the gate; may be empty
  int group = 0;                         // of its tokens among all: micro-batch * data ranks + rank
  Communicator* communicator = nullptr;  // of the op's group and stream; null where it talks to no other rank
  double ready = 0;                      // virtual; a collective raises it to the latest of its group

  std::size_t read_count() const { return schedule.reads_of(op).size(); }
  std::size_t write_count() const { return schedule.writes_of(op).size(); }
  const Tensor& read_tensor(std::size_t i) const { return tensor(schedule.reads_of(op)[i]); }
  const Tensor& write_tensor(std::size_t i) const { return tensor(schedule.writes_of(op)[i]); }
  const Scalar* read(std::size_t i) const { return data(schedule.reads_of(op)[i]); }
  Scalar* write(std::size_t i) const { return data(schedule.writes_of(op)[i]); }

 private:
  const Tensor& tensor(TensorId id) const { return schedule.tensors[static_cast<std::size_t>(id)]; }
  Scalar* data(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
};

template <class Scalar>
using OpKernel = void (*)(OpContext<Scalar>&);

// What does an op in each pass; null where it has no such pass.
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

// Throws InternalError for a pair that no kernel exists for.
template <class Scalar>
OpKernel<Scalar> kernel_of(const Op& op);

// Of the ops that exchange data between ranks; null for others.
template <class Scalar>
OpKernel<Scalar> communication_kernel_of(const Op& op);

}  // namespace dovetail::exec
