// SPDX-License-Identifier: Apache-2.0
// The regions of a lowered op in one rank's device memory, and what the rank does there alone.
#pragma once
#include "exec/device/device_memory.hpp"
#include "exec/device/recorder.hpp"
#include "exec/step/op_operands.hpp"
#include "models/schedule/lowering.hpp"

namespace dovetail::exec {

struct GroupMember {
  OpOperands operands;
  const DeviceMemory* memory;
  int rank = 0;

  LoweredOp lowered() const { return lower(operands.schedule, operands.op, rank); }
  std::byte* at(TensorId id) const { return static_cast<std::byte*>(memory->tensors()[id]); }
  std::int64_t bytes(TensorId id) const { return memory->bytes_of(id); }
  std::int64_t element_bytes(TensorId id) const { return bytes(id) / operands.tensor(id).elements; }
};

// Scratch memory consists of Scalars, and so do the operands of sums, unless they are wide.
template <class Scalar>
class RankRegions {
 public:
  // Scratch memory is taken from the recorder when it is first asked for, unless it is placed before.
  RankRegions(Recorder& out, const GroupMember& member, std::int64_t scratch);
  void place_scratch(std::byte* at) { scratch_ = at; }

  std::byte* at(const Region& region);
  Scalar* scalars(const Region& region) { return reinterpret_cast<Scalar*>(at(region)); }
  std::int64_t bytes(const Region& region) const { return region.count * unit(region); }
  bool is_wide(const Region& region) const { return unit(region) > static_cast<std::int64_t>(sizeof(Scalar)); }
  void record(const LocalSteps& steps);

 private:
  std::int64_t unit(const Region& region) const;  // bytes of an element
  void copy(const LocalStep& step);

  Recorder* out_;
  const GroupMember* member_;
  std::int64_t elements_;  // of the scratch memory
  std::byte* scratch_ = nullptr;
};

}  // namespace dovetail::exec
