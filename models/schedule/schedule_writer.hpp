// SPDX-License-Identifier: Apache-2.0
// Appends tensors and ops to a schedule and derives dependencies from who wrote what an op reads, and from barriers.
// Knows nothing of MoE layers.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail {

class ScheduleWriter {
 public:
  explicit ScheduleWriter(std::size_t expected_ops);
  ScheduleWriter without_ops(std::size_t expected_ops) const;  // and tensors: the same streams, steps and kernels

  StreamId add_stream(StreamKind kind, int rank_class = 0);
  TensorId add_tensor(const Tensor& tensor);
  const Tensor& tensor(TensorId id) const { return schedule_.tensors[id]; }
  const Schedule& so_far() const { return schedule_; }
  OpId last_writer(TensorId id) const { return last_writer_[id]; }
  void set_steps(std::vector<CollectiveStep> steps) { schedule_.steps = std::move(steps); }
  Span add_kernels(std::span<const KernelUse> kernels);  // those that are there already if they are
  // The op runs after the last writer of everything it reads, after all users of the memory that tensors it writes
  // take over, and after `after`, if given.
  OpId add_op(Op op, std::span<const TensorId> reads, std::span<const TensorId> writes, OpId after = {});
  // The op runs after every op of its rank class so far, and every later one after it.
  OpId add_barrier(const Op& op);
  // Every later op of its rank class runs after this one.
  void hold(TensorId tensor, double times) { schedule_.tensors[tensor].held = times; }  // see Tensor::held
  void hold_back(OpId id) {
    barrier_of(schedule_.ops[id]) = id;
    asked_[id].hold = Hold::Back;
  }
  // Adds an op of another writer, with tensors and `after` of its own.
  OpId add_again(const ScheduleWriter& from, OpId original, int micro_batch, std::span<const TensorId> reads,
                 std::span<const TensorId> writes, OpId after);
  OpId asked_after(OpId id) const { return asked_[id].after; }  // what add_op() was given
  // Says that so many ops do for another micro-batch what those from `original` on do.
  void note_copies(const OpCopies& copies) { schedule_.copies.push_back(copies); }
  Schedule finish(int ranks);  // of each class

 private:
  void note_use(TensorId tensor, OpId op);
  OpId& barrier_of(const Op& op) { return barriers_[static_cast<std::size_t>(schedule_.class_of(op))]; }

  enum class Hold : std::uint8_t { Nothing, Back, Barrier };
  struct Asked {  // beside reads and writes
    OpId after;
    Hold hold = Hold::Nothing;
  };
  struct Use {
    OpId op;
    std::int32_t before;  // the tensor's use before this one in uses_; -1: none
  };
  Schedule schedule_;
  std::vector<Span> kernels_;  // the lists added so far: few, since layers are alike
  IdVector<TensorId, OpId> last_writer_;
  IdVector<TensorId, std::int32_t> last_use_;  // index into uses_; -1: none
  std::vector<Use> uses_;
  IdVector<OpId, Asked> asked_;
  IdVector<StreamId, OpId> last_op_;
  std::vector<OpId> barriers_;  // by rank class: the last one
};

}  // namespace dovetail
