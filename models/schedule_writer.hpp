// Appends tensors and ops to a schedule and derives dependencies from who wrote what an op reads.
// Knows nothing of MoE layers.
#pragma once
#include <span>
#include <vector>

#include "models/schedule.hpp"

namespace dovetail {

class ScheduleWriter {
 public:
  explicit ScheduleWriter(std::size_t expected_ops);

  StreamId add_stream(StreamKind kind, int rank_class = 0);
  TensorId add_tensor(const Tensor& tensor);
  // The op runs after the last writer of everything it reads.
  OpId add_op(Op op, std::span<const TensorId> reads, std::span<const TensorId> writes);
  Schedule finish(int ranks);  // of each class

 private:
  Schedule schedule_;
  std::vector<OpId> last_writer_;  // by tensor; -1: none
};

}  // namespace dovetail
