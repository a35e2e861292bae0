// SPDX-License-Identifier: Apache-2.0
// Executes the steps of a schedule on the ranks of this process, whatever they run on.
#pragma once
#include <string>
#include <vector>

#include "exec/reference/model_data.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/rank_values.hpp"
#include "exec/run/sent_bytes.hpp"
#include "models/results/clock_reading.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::exec {

// A step of a training.
struct TrainingStep {
  int number = 1;   // from 1 on, without a gap; the first one begins with the executor's initial weights
  ModelData batch;  // its words alone count
  // By layer and group, in place of the gates' own choices unless empty; only for executors that share choices.
  std::vector<std::vector<Routing>> routing;
  Poison poison = Poison::No;  // of hosts, but not of what is kept; others take it as No
};

// All processes of a run call the same functions in the same order and get the same figures.
class Executor : public RankValues {
 public:
  // One training step from the initial weights; returns the step time of the slowest rank. Throws InternalError or
  // DeviceError with the op and the rank that failed, or with the ops that were under way; no step can follow it.
  virtual Seconds run_step(Poison poison) = 0;
  // A step of Adam on a batch, from the weights and the moments that the step before left. The next run_step() begins
  // with the initial weights all the same.
  virtual Seconds train_step(const TrainingStep& step) = 0;
  virtual bool shares_choices() const { return false; }  // does it take a training step's `routing`?
  // run_step() with time stamps, which return as the step's timeline.
  virtual Timeline run_stamped() = 0;
  // The last step with time stamps, by op, over all ranks: the latest start and finish, and whether it was held.
  virtual Timeline timeline() = 0;
  virtual int steps_per_sample() const { return 1; }  // that the last step was the mean of
  // The median over the steps since it was asked last.
  virtual ClockReading clock() { return {}; }
  // Real work in the same step, by op, the longest of any rank: without waiting for other members of the group.
  virtual IdVector<OpId, Seconds> work() = 0;

  // By op, what all ranks sent in the last step; empty: nobody has counted it.
  virtual IdVector<OpId, SentBytes> sent_bytes() { return {}; }

  // Can steps be captured at all? Then capture() does it, after a first step with time stamps and one without; it
  // returns the reason where this schedule or device cannot, and the executor goes on without.
  virtual bool captures() const { return false; }
  virtual std::string capture() { return "steps are not captured here"; }

  virtual long overruns() = 0;                              // of ops that were held, over all ranks, so far
  virtual std::string description() const { return {}; }    // of the devices; empty: nothing that a reader must know
  virtual std::int64_t memory_bytes() const { return 0; }   // of each rank's tensors, the most of any rank; 0: unknown
  virtual std::int64_t scratch_bytes() const { return 0; }  // beside them
};

}  // namespace dovetail::exec
