// SPDX-License-Identifier: Apache-2.0
// Vector clocks of Fidge and Mattern: how much of each lane is known to be over, which tells whether two commands are
// ordered.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::exec::deferred {

// Lanes are what runs in order: queues, and the parts of graphs that were captured from one queue each.
using LaneId = std::int32_t;

class Clock {
 public:
  // How many of the lane's commands are over.
  std::uint32_t of(LaneId lane) const {
    const auto at = static_cast<std::size_t>(lane);
    return at < over_.size() ? over_[at] : 0;
  }
  void count(LaneId lane) {
    const auto at = static_cast<std::size_t>(lane);
    if (at >= over_.size()) over_.resize(at + 1);
    ++over_[at];
  }
  void learn(const Clock& other) {
    if (other.over_.size() > over_.size()) over_.resize(other.over_.size());
    for (std::size_t i = 0; i < other.over_.size(); ++i) over_[i] = std::max(over_[i], other.over_[i]);
  }

 private:
  std::vector<std::uint32_t> over_;
};

}  // namespace dovetail::exec::deferred
