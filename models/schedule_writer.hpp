// Appends tensors and ops to a schedule and derives dependencies from who wrote what an op reads, and from barriers.
// Knows nothing of MoE layers.
#pragma once
#include <span>
#include <vector>

#include "models/schedule.hpp"

namespace dovetail {

class ScheduleWriter {
 public:
  explicit ScheduleWriter(std::size_t expected_ops);

  StreamId add_stream(StreamKind kind);
  TensorId add_tensor(const Tensor& tensor);
  const Tensor& tensor(TensorId id) const { return schedule_.tensors[static_cast<std::size_t>(id)]; }
  // The op runs after the last writer of everything it reads.
  OpId add_op(Op op, std::span<const TensorId> reads, std::span<const TensorId> writes);
  // The op runs after every op so far, and every later op after it.
  OpId add_barrier(const Op& op);
  Schedule finish(int ranks);

 private:
  Schedule schedule_;
  std::vector<OpId> last_writer_;  // by tensor; -1: none
  std::vector<OpId> last_op_;      // by stream; -1: none
  OpId barrier_ = -1;
};

}  // namespace dovetail
