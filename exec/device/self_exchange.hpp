// The exchanges of one rank that stands for all: they send to themselves as many bytes as would arrive, in slices that
// are held to their shares of the modelled time.
#pragma once
#include <optional>

#include "exec/device/device_network.hpp"
#include "exec/device/group_op.hpp"

namespace dovetail::exec {

class SelfExchanges {
 public:
  // `durations` by op; none: not held. `network`: of one rank; null: slices are copies. Both it and the device must
  // outlive this.
  SelfExchanges(ComputeDevice& device, const Schedule& schedule, int rank_class,
                std::vector<std::optional<Seconds>> durations, Seconds overrun_tolerance, DeviceNetwork* network);

  bool holds(OpId op) const { return held_[static_cast<std::size_t>(op)].has_value(); }
  // In each step: when it begins, and after each op.
  void begin(Queue& origin) const;
  void after(Queue& queue, OpId op) const;
  // The whole of an op that exchanges.
  void record(const GroupMember& self, OpId id, Recorder& recorder) const;
  long overruns() const;  // of held ops, so far

 private:
  struct Piece {
    std::byte* to;
    const std::byte* from;
    std::int64_t bytes;
  };
  std::int64_t* moments() const { return reinterpret_cast<std::int64_t*>(moments_->data()); }
  void send(StreamId stream, const std::vector<Piece>& pieces, RowRange range, Recorder& recorder) const;

  ComputeDevice& device_;
  std::int64_t tolerance_;
  std::unique_ptr<Memory> moments_;                        // see Hold
  std::vector<std::optional<Seconds>> held_;               // by op, as the next two
  std::vector<std::vector<std::int32_t>> before_;          // the moments at which a held op begins
  std::vector<char> told_;                                 // not held, and its end is such a moment
  std::vector<std::unique_ptr<DeviceCommunicator>> self_;  // by stream
};

}  // namespace dovetail::exec
