// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/deferred_graph.hpp"

#include <unordered_map>
#include <utility>

#include "exec/device/deferred/deferred_queue.hpp"

namespace dovetail::exec::deferred {

DeferredGraph::DeferredGraph(Runner& runner, std::vector<std::vector<Command>> parts)
    : runner_(runner), parts_(std::move(parts)) {
  for (std::size_t i = 0; i < parts_.size(); ++i) lanes_.push_back(runner.make_lane());
}

// Each launch has records of its own.
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
