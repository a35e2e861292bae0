// Appends tensors and ops to a schedule and derives dependencies from who wrote what an op reads.
// Knows nothing of MoE layers.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "models/schedule.hpp"

namespace dovetail {

class ScheduleWriter {
 public:
  explicit ScheduleWriter(std::size_t expected_ops);

  StreamId add_stream(StreamKind kind);
  TensorId add_tensor(const Tensor& tensor);
  void set_steps(std::vector<CollectiveStep> steps) { schedule_.steps = std::move(steps); }
  // The op runs after the last writer of everything it reads.
  OpId add_op(Op op, std::span<const TensorId> reads, std::span<const TensorId> writes);
  Schedule finish(int ranks);

 private:
  Schedule schedule_;
  std::vector<OpId> last_writer_;  // by tensor; -1: none
};

}  // namespace dovetail
