// SPDX-License-Identifier: Apache-2.0
#include "models/network/schedule_classes.hpp"

#include <utility>

#include "models/network/network_load.hpp"

namespace dovetail {
namespace {

class Splitter {
 public:
  Splitter(const Schedule& schedule, const FoldedNetwork& network) : s_(schedule), network_(network) {}

  Schedule split() {
    out_.groups = s_.groups;
    out_.steps = s_.steps;
    out_.kernels = s_.kernels;
    const ScheduleSettings& settings = s_;
    static_cast<ScheduleSettings&>(out_) = settings;
    for (int c = 0; c < network_.classes(); ++c) {
      out_.classes.push_back({network_.ranks(c)});
      for (Stream stream : s_.streams) {
        stream.rank_class = c;
        out_.streams.push_back(stream);
      }
      for (Tensor tensor : s_.tensors) {
        tensor.rank_class = static_cast<std::int16_t>(c);
        if (tensor.buffer.exists()) tensor.buffer = of_class(tensor.buffer, s_.tensors.size(), c);
        out_.tensors.push_back(tensor);
      }
    }
    for (const Op& op : s_.ops)
      for (int c = 0; c < network_.classes(); ++c) out_.ops.push_back(copy(op, c));
    return std::move(out_);
  }

 private:
  template <class Key>
  static Key of_class(Key id, std::size_t all, int c) {
    return Key(id + static_cast<std::int32_t>(all) * c);
  }

  Op copy(const Op& op, int c) {
    Op twin = op;
    twin.stream = of_class(op.stream, s_.streams.size(), c);
    twin.dependencies.first = static_cast<std::int32_t>(out_.dependencies.size());
    for (OpId id : s_.dependencies_of(op)) out_.dependencies.emplace_back(id * network_.classes() + c);
    twin.dependencies.last = static_cast<std::int32_t>(out_.dependencies.size());
    twin.reads = operands(s_.reads_of(op), c);
    twin.writes = operands(s_.writes_of(op), c);
    return twin;
  }

  Span operands(std::span<const TensorId> ids, int c) {
    Span span{static_cast<std::int32_t>(out_.operands.size()), 0};
    for (TensorId id : ids) out_.operands.push_back(of_class(id, s_.tensors.size(), c));
    span.last = static_cast<std::int32_t>(out_.operands.size());
    return span;
  }

  const Schedule& s_;
  const FoldedNetwork& network_;
  Schedule out_;
};

}  // namespace

Schedule split_by_class(const Experiment& e, Schedule schedule) {
  if (!e.cluster.network || e.parallelism.pp > 1) return schedule;
  const FoldedNetwork network = fold(e, schedule);
  if (network.classes() == 1) return schedule;
  return Splitter(schedule, network).split();
}

}  // namespace dovetail
