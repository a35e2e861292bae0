// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/schedule_writer.hpp"

#include <algorithm>
#include <utility>

namespace dovetail {

ScheduleWriter::ScheduleWriter(std::size_t expected_ops) {
  schedule_.ops.reserve(expected_ops);
  schedule_.tensors.reserve(3 * expected_ops / 2);
  schedule_.dependencies.reserve(2 * expected_ops);
  schedule_.operands.reserve(4 * expected_ops);
  last_writer_.reserve(3 * expected_ops / 2);
  last_use_.reserve(3 * expected_ops / 2);
  uses_.reserve(4 * expected_ops);
  asked_.reserve(expected_ops);
}

ScheduleWriter ScheduleWriter::without_ops(std::size_t expected_ops) const {
  ScheduleWriter other(expected_ops);
  other.schedule_.streams = schedule_.streams;
  other.schedule_.steps = schedule_.steps;
  other.schedule_.kernels = schedule_.kernels;
  other.kernels_ = kernels_;
  other.last_op_.resize(last_op_.size());
  other.barriers_.resize(barriers_.size());
  return other;
}

StreamId ScheduleWriter::add_stream(StreamKind kind, int rank_class) {
  last_op_.push_back({});
  if (barriers_.size() <= static_cast<std::size_t>(rank_class))
    barriers_.resize(static_cast<std::size_t>(rank_class) + 1);
  return schedule_.streams.add({kind, rank_class});
}

TensorId ScheduleWriter::add_tensor(const Tensor& tensor) {
  last_writer_.push_back({});
  last_use_.push_back(-1);
  return schedule_.tensors.add(tensor);
}

Span ScheduleWriter::add_kernels(std::span<const KernelUse> kernels) {
  std::vector<KernelUse>& all = schedule_.kernels;
  const auto begin = [&](std::int32_t at) { return all.begin() + at; };
  for (const Span there : kernels_)
    if (std::equal(begin(there.first), begin(there.last), kernels.begin(), kernels.end())) return there;
  const auto first = static_cast<std::int32_t>(all.size());
  all.insert(all.end(), kernels.begin(), kernels.end());
  return kernels_.emplace_back(Span{first, static_cast<std::int32_t>(all.size())});
}

void ScheduleWriter::note_use(TensorId tensor, OpId op) {
  std::int32_t& last = last_use_[tensor];
  uses_.push_back({op, last});
  last = static_cast<std::int32_t>(uses_.size() - 1);
}

OpId ScheduleWriter::add_op(Op op, std::span<const TensorId> reads, std::span<const TensorId> writes, OpId after) {
  Schedule& s = schedule_;
  const auto size = [](const auto& all) { return static_cast<std::int32_t>(all.size()); };
  const OpId id(s.ops.size());
  op.dependencies.first = size(s.dependencies);
  const auto depend_on = [&](OpId before) {
    if (!before.exists()) return;
    const auto first = s.dependencies.begin() + op.dependencies.first;
    if (std::find(first, s.dependencies.end(), before) == s.dependencies.end()) s.dependencies.push_back(before);
  };
  for (TensorId t : reads) depend_on(last_writer(t));
  for (TensorId t : writes)
    if (const TensorId taken = tensor(t).buffer; taken.exists() && !last_writer(t).exists())
      for (std::int32_t use = last_use_[taken]; use >= 0; use = uses_[static_cast<std::size_t>(use)].before)
        depend_on(uses_[static_cast<std::size_t>(use)].op);
  depend_on(after);
  OpId& previous = last_op_[op.stream];
  if (const OpId barrier = barrier_of(op); previous < barrier)
    depend_on(barrier);  // later ops of the stream follow this one
  previous = id;
  op.dependencies.last = size(s.dependencies);
  op.reads.first = size(s.operands);
  s.operands.insert(s.operands.end(), reads.begin(), reads.end());
  op.reads.last = op.writes.first = size(s.operands);
  s.operands.insert(s.operands.end(), writes.begin(), writes.end());
  op.writes.last = size(s.operands);
  for (TensorId t : reads) note_use(t, id);
  for (TensorId t : writes) {
    note_use(t, id);
    last_writer_[t] = id;
  }
  s.ops.push_back(op);
  asked_.push_back({after});
  return id;
}

OpId ScheduleWriter::add_barrier(const Op& op) {
  const IdVector<StreamId, OpId> before = last_op_;
  const OpId id = add_op(op, {}, {});
  std::vector<OpId>& dependencies = schedule_.dependencies;
  for (const StreamId stream : before.ids())
    if (schedule_.streams[stream].rank_class == schedule_.class_of(op) && before[stream] > barrier_of(op))
      dependencies.push_back(before[stream]);
  schedule_.ops.back().dependencies.last = static_cast<std::int32_t>(dependencies.size());
  asked_[id].hold = Hold::Barrier;
  return barrier_of(op) = id;
}

OpId ScheduleWriter::add_again(const ScheduleWriter& from, OpId original, int micro_batch,
                               std::span<const TensorId> reads, std::span<const TensorId> writes, OpId after) {
  Op op = from.schedule_.ops[original];
  op.micro_batch = static_cast<std::int16_t>(micro_batch);
  const Hold hold = from.asked_[original].hold;
  if (hold == Hold::Barrier) return add_barrier(op);
  const OpId id = add_op(op, reads, writes, after);
  if (hold == Hold::Back) hold_back(id);
  return id;
}

Schedule ScheduleWriter::finish(int ranks) {
  int classes = 0;
  for (const Stream& stream : schedule_.streams) classes = std::max(classes, stream.rank_class + 1);
  schedule_.classes.assign(static_cast<std::size_t>(classes), {ranks});
  return std::move(schedule_);
}

}  // namespace dovetail
