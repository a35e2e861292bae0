// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/capture.hpp"

#include <utility>

#include "models/base/errors.hpp"

namespace dovetail::exec::deferred {

bool Capture::take(Lane& lane, const Command& command) {
  const bool waits = command.waits_for != nullptr, waits_here = waits && command.waits_for->capture == number_;
  if (waits && !waits_here && command.waits_for->capture != 0)
    throw DeviceError("waiting for an event", "its last record was captured into another graph");
  if (waits_here) lanes_[&lane];
  const auto found = lanes_.find(&lane);
  if (found == lanes_.end()) return false;
  if (waits && !waits_here)
    throw DeviceError("waiting for an event",
                      "it was recorded outside of the capture (cudaErrorStreamCaptureIsolation)");
  Part& part = found->second;
  if (waits) part.clock.learn(command.waits_for->clock);
  if (waits || command.work) part.clock.count(lane.id);
  if (command.records) {
    command.records->capture = number_;
    command.records->clock = part.clock;
  }
  part.commands.push_back(command);
  return true;
}

std::vector<std::vector<Command>> Capture::take_all() {
  const Clock& joined = lanes_[&origin_].clock;
  std::vector<std::vector<Command>> parts{std::move(lanes_[&origin_].commands)};
  for (auto& [lane, part] : lanes_) {
    if (lane == &origin_) continue;
    if (joined.of(lane->id) < part.clock.of(lane->id))
      throw DeviceError("ending a capture", "a queue is not joined to the first one (cudaErrorStreamCaptureUnjoined)");
    parts.push_back(std::move(part.commands));
  }
  return parts;
}

}  // namespace dovetail::exec::deferred
