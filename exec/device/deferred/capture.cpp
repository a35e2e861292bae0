#include "exec/device/deferred/capture.hpp"

#include <unordered_map>
#include <utility>

#include "exec/device/deferred/deferred_queue.hpp"
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

DeferredGraph::DeferredGraph(Runner& runner, std::vector<std::vector<Command>> parts)
    : runner_(runner), parts_(std::move(parts)) {
  for (std::size_t i = 0; i < parts_.size(); ++i) lanes_.push_back(runner.make_lane());
}

// Between what the queue was given before and what it gets after. Each launch has records of its own.
void DeferredGraph::launch(Queue& queue) {
  Lane& around = lane_of(queue);
  Command begin;
  begin.records = runner_.make_record();
  const std::shared_ptr<const Record> begun = begin.records;
  runner_.give(around, std::move(begin));
  std::unordered_map<const Record*, std::shared_ptr<Record>> records;
  const auto of_this_launch = [&](const Record* captured) {
    std::shared_ptr<Record>& record = records[captured];
    if (!record) record = runner_.make_record();
    return record;
  };
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Command first;
    first.waits_for = begun;
    runner_.give(*lanes_[i], std::move(first));
    for (Command command : parts_[i]) {
      if (command.waits_for) command.waits_for = of_this_launch(command.waits_for.get());
      if (command.records) command.records = of_this_launch(command.records.get());
      runner_.give(*lanes_[i], std::move(command));
    }
    Command last, joins;
    last.records = runner_.make_record();
    joins.waits_for = last.records;
    runner_.give(*lanes_[i], std::move(last));
    runner_.give(around, std::move(joins));
  }
}

}  // namespace dovetail::exec::deferred
