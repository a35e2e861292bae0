// SPDX-License-Identifier: Apache-2.0
// When each op of a step begins and ends, written down by the device itself, in a captured step too. The times are in
// pinned memory: where the device fails, the host still sees how far it came.
#pragma once
#include <memory>
#include <vector>

#include "exec/device/device.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::exec {

class Stamps {
 public:
  // The device must outlive this.
  Stamps(ComputeDevice& device, std::size_t ops);

  void clear();  // before a step that is stamped; the device must be done
  void step_begins(Queue& queue) { mark(queue, 0); }
  void begins(Queue& queue, std::size_t op) { mark(queue, 1 + 2 * op); }
  void ends(Queue& queue, std::size_t op) { mark(queue, 2 + 2 * op); }

  // After the step, or a failure of the device.
  Interval of(std::size_t op) const;            // since the step began
  std::vector<std::size_t> unfinished() const;  // ops that began and did not end

 private:
  void mark(Queue& queue, std::size_t at) { device_.mark(queue, times() + at); }
  std::int64_t* times() const { return reinterpret_cast<std::int64_t*>(memory_->data()); }

  ComputeDevice& device_;
  std::size_t ops_;
  std::unique_ptr<Memory> memory_;  // ns by the device's clock, 0: not yet; of the step, then of each op its two
};

}  // namespace dovetail::exec
