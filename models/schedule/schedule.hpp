// SPDX-License-Identifier: Apache-2.0
// The work of one step on every rank: ops in program order on FIFO streams, with the tensors they
// read and write. Immutable once built; every backend runs the same one.
#pragma once
#include <span>
#include <vector>

#include "models/plan/collectives/step.hpp"
#include "models/question/stage_layout.hpp"
#include "models/schedule/kernel_shape.hpp"
#include "models/schedule/op.hpp"
#include "models/schedule/schedule_settings.hpp"

namespace dovetail {

// The pipeline stages that a message goes between.
struct StageEnds {
  int sender = 0, receiver = 0;
};

struct RankClass {
  int ranks = 1;  // equal ranks that this class stands for; ranks are numbered class by class
};

// So many ops from `first` on do for another micro-batch what those from `original` on do for theirs.
struct OpCopies {
  OpId first, original;
  std::int32_t count = 0;
};

// Ops stand in an order in which they could run one by one: dependencies point backwards, and a
// stream's FIFO order is the order of its ops here. A collective is one op shared by its group. Classes exchange data
// by StageSend, which writes a tensor of another class, and the StageReceive there, which depends on it. A collective
// of all stages is an op of each of them, which reads a tensor of every stage.
class Schedule : public ScheduleSettings {
 public:
  std::vector<RankClass> classes;
  Parallelism groups;  // those that ops name: the experiment's, regrouped where plans repeat rows to shards
  IdVector<StreamId, Stream> streams;
  IdVector<TensorId, Tensor> tensors;
  IdVector<OpId, Op> ops;
  std::vector<CollectiveStep> steps;  // ExchangeWork::steps index this
  std::vector<KernelUse> kernels;     // KernelWork::kernels index this
  std::vector<OpId> dependencies;     // Op::dependencies index this
  std::vector<TensorId> operands;     // Op::reads and Op::writes index this
  std::vector<OpCopies> copies;       // by `first`; not of all that are alike

  // A collective among the ranks of several stages.
  bool joins_stages(const Op& op) const {
    return groups.pp > 1 && op.exchange() != nullptr && op.group() == GroupKind::World;
  }

  // An exchange that sends a token once to each node.
  bool relays(const Op& op) const;

  int class_of(const Op& op) const { return streams[op.stream].rank_class; }
  StageEnds ends_of(const Op& op) const;  // of a StageSend or StageReceive
  int class_of_rank(int rank) const;

  // If ranks of one group differ, each of their classes has an op of its own for the same thing. Such twins stand
  // one after the other, in the order of the classes. A pipeline stage's op has no twin.
  int twins() const { return groups.pp > 1 ? 1 : static_cast<int>(classes.size()); }
  OpId first_twin(OpId op) const { return OpId(op - op % twins()); }
  OpId twin(OpId first, int rank_class) const { return twins() == 1 ? first : OpId(first + rank_class); }

  std::span<const OpId> dependencies_of(const Op& op) const { return slice(dependencies, op.dependencies); }
  std::span<const CollectiveStep> steps_of(const Op& op) const {
    return op.exchange() == nullptr ? std::span<const CollectiveStep>() : slice(steps, op.exchange()->steps);
  }
  std::span<const KernelUse> kernels_of(const KernelWork& work) const { return slice(kernels, work.kernels); }
  std::span<const TensorId> reads_of(const Op& op) const { return slice(operands, op.reads); }
  std::span<const TensorId> writes_of(const Op& op) const { return slice(operands, op.writes); }

  // Calls visit(before, op) for each pair of ops in which `op` waits for the end of `before`: dependencies, and the op
  // before it on its stream. Ops come in program order.
  template <class Visit>
  void for_each_edge(Visit visit) const {
    IdVector<StreamId, OpId> last(streams.size());
    for (const OpId op : ops.ids()) {
      for (const OpId before : dependencies_of(ops[op])) visit(before, op);
      OpId& previous = last[ops[op].stream];
      if (previous.exists()) visit(previous, op);
      previous = op;
    }
  }

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, Span part) {
    return {all.data() + part.first, all.data() + part.last};
  }
};

// Throws InternalError unless dependencies point backwards, streams and tensors exist, every op has the operands of its
// kind (op_table.hpp), every tensor is written before it is read, steps and kernels exist, conflicting accesses are
// ordered by dependencies or stream order, ops keep to tensors of their own rank class (but for what a StageSend
// writes and what is read to join stages), tensors that share memory are never in use together, and sizes are positive.
void validate(const Schedule& schedule);

}  // namespace dovetail
