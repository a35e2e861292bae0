// SPDX-License-Identifier: Apache-2.0
// Gives the tasks of a step to the queues of a device, and waits for them beside other ranks.
#pragma once
#include <memory>
#include <vector>

#include "exec/device/device_tasks.hpp"
#include "exec/device/stamps.hpp"
#include "exec/device/task_recording.hpp"
#include "exec/run/executor.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

enum class Stamped { No, Yes };

class DeviceStep {
 public:
  // All arguments must outlive this.
  DeviceStep(ComputeDevice& device, const Schedule& schedule, const DeviceTasks& tasks, const RanksHere& here,
             Stamps& stamps, const DeviceSettings& settings);

  // Gives all tasks to their queues, between what `origin` has got and what it gets afterwards. An error names the op
  // that failed.
  void issue(Queue& origin, Poison poison, Stamped stamped);

  // Until `end`. A transfer that failed and a rank that gave up are seen while waiting: they end it with an error,
  // which names the op that nobody gets past. Events that were captured in a graph cannot be asked, so that there the
  // error names none.
  void wait_with_others(const Event& end, bool as_graph) const;

  // The same error with the ops that had begun and not ended: a device fails after the host has given it the op that
  // is at fault.
  DeviceError with_ops_under_way(const DeviceError& error) const;

 private:
  const Op& op_of(const DeviceTask& task) const { return schedule_.ops[task.op]; }
  void issue(std::size_t index, Poison poison, Stamped stamped);
  void gather(const DeviceTask& task) const;
  void empty(Queue& queue, const DeviceTask& task) const;
  void release(const DeviceTask& task, Queue& queue) const;
  void wait_until(const Event& event) const;
  template <class Body>
  void named_by(const DeviceTask& task, Body body) const;

  ComputeDevice& device_;
  const Schedule& schedule_;
  const DeviceTasks& tasks_;
  RanksHere here_;
  Stamps& stamps_;
  DeviceNetwork* network_;  // to the other ranks; null: all are here
  Progress* progress_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<Event>> joined_;  // by queue
  std::unique_ptr<Event> fork_;
};

}  // namespace dovetail::exec
