// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_step.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <thread>

#include "exec/device/group_op.hpp"
#include "exec/run/failure.hpp"

namespace dovetail::exec {
namespace {

constexpr std::chrono::microseconds between_looks{20};

// Streams that exchange come first where multiprocessors are free.
IdVector<StreamId, Priority> priorities(const Schedule& schedule) {
  IdVector<StreamId, Priority> priorities(schedule.streams.size(), Priority::Normal);
  for (const Op& op : schedule.ops)
    if (exchanges(schedule, op)) priorities[op.stream] = Priority::High;
  return priorities;
}

}  // namespace

DeviceStep::DeviceStep(ComputeDevice& device, const Schedule& schedule, const DeviceTasks& tasks, const RanksHere& here,
                       Stamps& stamps, const DeviceSettings& settings)
    : device_(device),
      schedule_(schedule),
      tasks_(tasks),
      here_(here),
      stamps_(stamps),
      network_(settings.ranks == DeviceRanks::Own ? settings.network : nullptr),
      progress_(settings.progress),
      fork_(device.make_event()) {
  const IdVector<StreamId, Priority> of_streams = priorities(schedule);
  for (std::size_t rank = 0; rank < here.ranks.size(); ++rank)
    for (Priority priority : of_streams) {
      queues_.push_back(device.make_queue(priority, settings.product_multiprocessors));
      joined_.push_back(device.make_event());
    }
}

void DeviceStep::issue(Queue& origin, Poison poison, Stamped stamped) {
  if (here_.self_exchanges != nullptr) here_.self_exchanges->begin(origin);
  if (stamped == Stamped::Yes) stamps_.step_begins(origin);
  origin.record(*fork_);
  for (const auto& queue : queues_) queue->wait(*fork_);
  for (std::size_t i = 0; i < tasks_.all.size(); ++i) named_by(tasks_.all[i], [&] { issue(i, poison, stamped); });
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    queues_[i]->record(*joined_[i]);
    origin.wait(*joined_[i]);
  }
}

void DeviceStep::issue(std::size_t index, Poison poison, Stamped stamped) {
  const DeviceTask& task = tasks_.all[index];
  Queue& queue = *queues_[task.queues.front()];
  gather(task);
  if (op_of(task).kind == OpKind::HostSync) empty(queue, task);
  if (stamped == Stamped::Yes) stamps_.begins(queue, index);
  for (const DeviceWork& work : task.work) work(queue);
  if (stamped == Stamped::Yes) stamps_.ends(queue, index);
  if (here_.self_exchanges != nullptr) here_.self_exchanges->after(queue, task.op);
  if (poison == Poison::Yes) release(task, queue);
  queue.record(*task.done);
  for (std::size_t i = 1; i < task.members.size(); ++i) queues_[task.queues[i]]->wait(*task.done);
}

// Each member waits for what the op needs of its own rank; the first one's queue waits for the others.
void DeviceStep::gather(const DeviceTask& task) const {
  for (std::size_t i = 0; i < task.members.size(); ++i) {
    Queue& of_member = *queues_[task.queues[i]];
    of_member.serves({task.op, here_.ranks[task.members[i]]});
    for (const Event* event : task.waits[i]) of_member.wait(*event);
    if (i == 0) continue;
    of_member.record(*task.arrived[i]);
    queues_[task.queues.front()]->wait(*task.arrived[i]);
  }
}

void DeviceStep::empty(Queue& queue, const DeviceTask& task) const {
  if (network_ == nullptr) return device_.synchronize(queue);
  queue.record(*task.arrived.front());
  wait_until(*task.arrived.front());
}

// Before the op counts as done, so that whoever takes over the memory comes later.
void DeviceStep::release(const DeviceTask& task, Queue& queue) const {
  for (std::size_t member : task.members) {
    const DeviceMemory& memory = *here_.memory[member];
    for (TensorId id : memory.released_by(task.op)) {
      for (OpId user : memory.users_of(id))
        if (user != task.op) queue.wait(*tasks_.done[user][member]);
      queue.fill(memory.tensors()[id], 0xff, memory.bytes_of(id));
    }
  }
}

void DeviceStep::wait_until(const Event& event) const {
  while (!device_.reached(event)) {
    network_->check();
    std::this_thread::sleep_for(between_looks);
  }
}

void DeviceStep::wait_with_others(const Event& end, bool as_graph) const {
  const auto wait_for = [&](const DeviceTask& task, const Event& event) {
    const Progress::Running running(progress_, op_of(task).stream, task.op);
    wait_until(event);
  };
  if (as_graph) return wait_for(tasks_.all.back(), end);
  for (const DeviceTask& task : tasks_.all) named_by(task, [&] { wait_for(task, *task.done); });
  wait_until(end);
}

template <class Body>
void DeviceStep::named_by(const DeviceTask& task, Body body) const {
  try {
    body();
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    const int rank = here_.ranks[task.members.front()];
    std::rethrow_exception(named(std::current_exception(), to_string(op_of(task)), rank));
  }
}

DeviceError DeviceStep::with_ops_under_way(const DeviceError& error) const {
  std::string ops;
  for (std::size_t i : stamps_.unfinished())
    ops += fmt::format("{}{} on rank {}", ops.empty() ? "" : ", ", to_string(op_of(tasks_.all[i])),
                       here_.ranks[tasks_.all[i].members.front()]);
  return ops.empty() ? error : DeviceError("while under way: " + ops, error.what());
}

}  // namespace dovetail::exec
