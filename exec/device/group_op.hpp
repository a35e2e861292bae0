// Ops that move data between ranks, where all ranks of the group are on one device: copies and sums.
#pragma once
#include <vector>

#include "exec/device/device_memory.hpp"
#include "exec/device/recorder.hpp"
#include "exec/host/op_operands.hpp"

namespace dovetail::exec {

struct GroupMember {
  OpOperands operands;
  const DeviceMemory* memory;

  std::byte* read(std::size_t i) const { return at(operands.reads()[i]); }
  std::byte* write(std::size_t i) const { return at(operands.writes()[i]); }
  std::byte* at(TensorId id) const { return static_cast<std::byte*>(memory->tensors()[static_cast<std::size_t>(id)]); }
  std::int64_t read_bytes(std::size_t i) const { return memory->bytes_of(operands.reads()[i]); }
  std::int64_t write_bytes(std::size_t i) const { return memory->bytes_of(operands.writes()[i]); }
};

// Which ranks an op's group consists of is decided by its own rules: those of a stage send are the sender and the
// receiver, in this order; of all others the members in group order.
bool exchanges(const Schedule& schedule, const Op& op);

// What a stage sends: the sum of what the op reads, where chunks of tokens stand one after the other.
template <class Scalar>
void record_stage_sum(Recorder& out, const GroupMember& sender, Scalar* to);

// The whole of the op, for all members.
template <class Scalar>
void record_exchange(Recorder& out, const std::vector<GroupMember>& members);

}  // namespace dovetail::exec
