// SPDX-License-Identifier: Apache-2.0
#include "exec/device/task_recording.hpp"

#include <algorithm>
#include <utility>

#include "exec/device/collective_op.hpp"
#include "exec/device/device_op.hpp"
#include "exec/device/group_op.hpp"

namespace dovetail::exec {
namespace {

class DeviceTables final : public Tables {
 public:
  DeviceTables(ComputeDevice& device, WorkMemory& kept) : device_(device), kept_(kept) {}
  const void* upload(const void* data, std::int64_t bytes) override {
    kept_.push_back(device_.allocate(bytes, Place::Device));
    device_.copy_now(kept_.back()->data(), data, bytes);
    return kept_.back()->data();
  }

 private:
  ComputeDevice& device_;
  WorkMemory& kept_;
};

GroupMember member(const RanksHere& here, std::size_t local, const Op& op) {
  return {here.setup.operands(local, op), here.memory[local].get(), here.ranks[local]};
}

template <class Scalar>
void record(const Schedule& schedule, const RanksHere& here, const DeviceTask& task, Recorder& recorder) {
  const Op& op = schedule.ops[task.op];
  const std::size_t local = task.members.front();
  const bool receives = op.kind == OpKind::StageReceive, exchanging = exchanges(schedule, op);
  if (here.channels != nullptr && (receives || exchanging))
    return record_collective<Scalar>(recorder, member(here, local, op), here.channels->of(op));
  if (receives) return;  // its dependencies do all the waiting
  if (here.self_exchanges != nullptr && exchanging)
    return here.self_exchanges->record(member(here, local, op), task.op, recorder);
  if (exchanging) {
    std::vector<GroupMember> members;
    for (const auto* ranks : {&task.members, &task.also})
      for (std::size_t rank : *ranks) members.push_back(member(here, rank, op));
    return record_exchange<Scalar>(recorder, members);
  }
  DeviceOp<Scalar> device_op{here.setup.operands(local, op), here.memory[local]->tensors(), recorder,
                             here.memory[local]->adam_scales()};
  record_op(device_op);
}

// First without memory, to learn how much scratch each queue needs.
template <class Scalar>
RecordedWork record_all(ComputeDevice& device, const Schedule& schedule, const RanksHere& here, DeviceTasks& tasks) {
  std::vector<std::int64_t> scratch(tasks.queues);
  for (const DeviceTask& task : tasks.all) {
    Recorder sizes(nullptr, reinterpret_cast<std::byte*>(std::uintptr_t{256}));
    record<Scalar>(schedule, here, task, sizes);
    std::int64_t& most = scratch[task.queues.front()];
    most = std::max(most, sizes.scratch_bytes());
  }
  RecordedWork recorded;
  for (std::int64_t bytes : scratch) recorded.scratch.push_back(device.allocate(bytes, Place::Device));
  DeviceTables tables(device, recorded.tables);
  for (DeviceTask& task : tasks.all) {
    Recorder recorder(&tables, recorded.scratch[task.queues.front()]->data());
    record<Scalar>(schedule, here, task, recorder);
    task.work = recorder.take();
  }
  return recorded;
}

}  // namespace

RecordedWork record_tasks(ComputeDevice& device, const Schedule& schedule, const RanksHere& here, Stored scalar,
                          DeviceTasks& tasks) {
  switch (scalar) {
    case Stored::Double:
      return record_all<double>(device, schedule, here, tasks);
    case Stored::Float:
      return record_all<float>(device, schedule, here, tasks);
    default:
      return record_all<Bf16>(device, schedule, here, tasks);
  }
}

}  // namespace dovetail::exec
