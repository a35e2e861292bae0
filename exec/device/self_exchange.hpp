// SPDX-License-Identifier: Apache-2.0
// The exchanges of one rank that stands for all: they copy as many bytes as would arrive, each held to its modelled
// time.
#pragma once
#include "exec/device/device.hpp"
#include "exec/device/device_settings.hpp"
#include "exec/device/group_op.hpp"

namespace dovetail::exec {

class SelfExchanges {
 public:
  // With the settings' durations, tolerance and blocks. The device must outlive this.
  SelfExchanges(ComputeDevice& device, const Schedule& schedule, int rank_class, const DeviceSettings& settings);

  bool holds(OpId op) const { return held_[op].has_value(); }
  // In each step: when it begins, and after each op.
  void begin(Queue& origin) const;
  void after(Queue& queue, OpId op) const;
  // The whole of an op that exchanges.
  void record(const GroupMember& self, OpId id, Recorder& recorder) const;
  long overruns() const;  // of held ops, so far

 private:
  std::int64_t* moments() const { return reinterpret_cast<std::int64_t*>(moments_->data()); }

  ComputeDevice& device_;
  std::int64_t tolerance_;
  int blocks_;
  std::unique_ptr<Memory> moments_;  // see Hold
  std::unique_ptr<Memory> done_;     // by op; see HeldExchange
  IdVector<OpId, std::optional<Seconds>> held_;
  IdVector<OpId, std::vector<std::int32_t>> before_;  // the moments at which a held op begins
  IdVector<OpId, char> told_;                         // not held, and its end is such a moment
};

}  // namespace dovetail::exec
