// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_tasks.hpp"

#include <utility>

#include "exec/device/group_op.hpp"

namespace dovetail::exec {
namespace {

class TaskMaker {
 public:
  TaskMaker(ComputeDevice& device, const Schedule& schedule, std::span<const int> ranks, DeviceRanks which)
      : device_(device), schedule_(schedule), ranks_(ranks), all_here_(which == DeviceRanks::All) {}

  DeviceTasks make() {
    tasks_.queues = ranks_.size() * schedule_.streams.size();
    tasks_.done =
        IdVector<OpId, std::vector<const Event*>>(schedule_.ops.size(), std::vector<const Event*>(ranks_.size()));
    for (const OpId id : schedule_.ops.ids())
      for (std::size_t local = 0; local < ranks_.size(); ++local)
        if (schedule_.class_of_rank(ranks_[local]) == schedule_.class_of(schedule_.ops[id]) &&
            tasks_.done[id][local] == nullptr)
          add(id, local);
    return std::move(tasks_);
  }

 private:
  void add(OpId id, std::size_t local) {
    const Op& op = schedule_.ops[id];
    DeviceTask task;
    task.op = id;
    task.members = group_of(local, op);
    if (op.kind == OpKind::StageSend && all_here_) task.also = {receiver_of(local, op)};
    task.done = device_.make_event();
    for (std::size_t member : task.members) {
      task.queues.push_back(member * schedule_.streams.size() + static_cast<std::size_t>(op.stream));
      task.waits.push_back(events_before(op, member));
      task.arrived.push_back(device_.make_event());
    }
    for (const auto* done_on : {&task.members, &task.also})
      for (std::size_t member : *done_on) tasks_.done[id][member] = task.done.get();
    tasks_.all.push_back(std::move(task));
  }

  // The stream itself is in order. A rank alone has no sender to wait for.
  std::vector<const Event*> events_before(const Op& op, std::size_t member) const {
    std::vector<const Event*> events;
    for (OpId before : schedule_.dependencies_of(op))
      if (const Event* done = tasks_.done[before][member]; done != nullptr && schedule_.ops[before].stream != op.stream)
        events.push_back(done);
    return events;
  }

  // The ranks that do an op together with this one; this one's group has them in its order.
  std::vector<std::size_t> group_of(std::size_t local, const Op& op) const {
    if (!all_here_ || !exchanges(schedule_, op) || op.kind == OpKind::StageSend) return {local};
    std::vector<std::size_t> members;
    for (int rank : group_members(schedule_.groups, op.group(), ranks_[local]))
      members.push_back(static_cast<std::size_t>(rank));  // all ranks are here, in their order
    return members;
  }

  // The rank of the same place in the stage where the message arrives.
  std::size_t receiver_of(std::size_t local, const Op& op) const {
    const auto ranks = static_cast<std::size_t>(schedule_.groups.stage_ranks());
    const int stage = schedule_.tensors[schedule_.writes_of(op).front()].rank_class;
    return static_cast<std::size_t>(stage) * ranks + local % ranks;
  }

  ComputeDevice& device_;
  const Schedule& schedule_;
  std::span<const int> ranks_;
  bool all_here_;
  DeviceTasks tasks_;
};

}  // namespace

DeviceTasks make_device_tasks(ComputeDevice& device, const Schedule& schedule, std::span<const int> ranks,
                              DeviceRanks which) {
  return TaskMaker(device, schedule, ranks, which).make();
}

}  // namespace dovetail::exec
