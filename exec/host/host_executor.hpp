// Really executes the steps of a schedule on the ranks of this process: kernels of host_kernels.hpp, any transport.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "exec/reference/model_data.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/emulation.hpp"
#include "exec/run/hooks.hpp"
#include "exec/run/progress.hpp"
#include "exec/run/rank_values.hpp"
#include "exec/transport/transport.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::exec {

class HostExecutor : public RankValues {
 public:
  // One training step from the initial weights; returns the step time of the slowest rank. With poison, tensors
  // hold NaN before their first write and after their last read (not those that results are read from).
  // What gathers from all ranks (this, overruns, timeline, work) is called by all processes. Failures: see
  // StreamRuntime::run_step.
  virtual Seconds run_step(Poison poison) = 0;

  // Calls the user's functions from the next step on.
  virtual void set_hooks(Hooks hooks) = 0;

  // Holds ops to `durations` (by op, wall seconds; none: not held) from the next step on. See Emulation.
  virtual void emulate(std::vector<std::optional<Seconds>> durations, Seconds tolerance, bool spin) = 0;
  virtual long overruns() = 0;  // since then, over all ranks

  // Is told of each op of each rank here from the next step on.
  virtual void report_to(Progress& progress) = 0;

  // From any thread: ends the step as a failed op does. Ops that never look up are not stopped.
  virtual void give_up(const std::string& why) = 0;

  // Of the last step, by op, over all ranks: the latest start and finish; which ops were held.
  virtual Timeline timeline() = 0;
  // Of the last step, by op, the longest of any rank: real work without waiting for other members of the group.
  virtual std::vector<Seconds> work() = 0;
};

// `element`: what all tensors consist of, whatever the schedule says. `routing` as in
// Reference: replaces the gates' own choices, unless empty. `transport` must outlive the executor.
std::unique_ptr<HostExecutor> make_host_executor(const Experiment& experiment, std::shared_ptr<const Schedule> schedule,
                                                 Element element, const ModelData& data,
                                                 std::vector<std::vector<Routing>> routing, Transport& transport);

}  // namespace dovetail::exec
