// SPDX-License-Identifier: Apache-2.0
// Really executes the steps of a schedule on the ranks of this process: kernels of host_kernels.hpp, any transport.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/reference/model_data.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/emulation.hpp"
#include "exec/run/executor.hpp"
#include "exec/run/hooks.hpp"
#include "exec/run/progress.hpp"
#include "exec/run/step_clock.hpp"
#include "exec/transport/transport.hpp"

namespace dovetail::exec {

// The tensors that a step of a training takes over from the one before, as they lie in memory.
using KeptMemory = std::vector<std::span<const std::byte>>;

class HostExecutor : public Executor {
 public:
  // The last step, over the ranks of this process.
  virtual StepSpan span() const = 0;
  // The memory of a rank here, in the order of kept_tensors().
  virtual KeptMemory kept(std::size_t local) const = 0;

  // Every step has time stamps.
  Timeline run_stamped() override {
    run_step(Poison::No);
    return timeline();
  }

  // Calls the user's functions from the next step on.
  virtual void set_hooks(Hooks hooks) = 0;

  // Holds ops to `durations` (by op, wall seconds; none: not held) from the next step on, and counts overruns from 0.
  // See Emulation.
  virtual void emulate(IdVector<OpId, std::optional<Seconds>> durations, Seconds tolerance, bool spin) = 0;

  // Is told of each op of each rank here from the next step on.
  virtual void report_to(Progress& progress) = 0;

  // From any thread: ends the step as a failed op does. Ops that never look up are not stopped.
  virtual void give_up(const std::string& why) = 0;

  // Gives up once no op has finished for so long. All ranks must be here. See StallWatch.
  virtual void watch_stalls(Seconds patience, std::function<void(const std::string& why)> stuck) = 0;
};

// `element`: what all tensors consist of, whatever the schedule says. `routing` as in
// Reference: replaces the gates' own choices, unless empty. `transport` must outlive the executor.
std::unique_ptr<HostExecutor> make_host_executor(const Experiment& experiment, std::shared_ptr<const Schedule> schedule,
                                                 Element element, const ModelData& data,
                                                 const std::vector<std::vector<Routing>>& routing,
                                                 Transport& transport);

// Executors of several schedules on the same memory (RankMemory), each with the transport of its number and gates that
// choose for themselves. A step of one goes on with the weights and optimizer states that a step of another left, if
// storage_difference() finds none. Only one may run at a time, and values() of another are then of no use.
std::vector<std::unique_ptr<HostExecutor>> make_host_executors(
    const Experiment& experiment, const std::vector<std::shared_ptr<const Schedule>>& schedules, Element element,
    const ModelData& data, const std::vector<std::unique_ptr<Transport>>& transports);

}  // namespace dovetail::exec
