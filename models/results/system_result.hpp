// SPDX-License-Identifier: Apache-2.0
// A plan of a system with all that is known of its step.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/results/clock_reading.hpp"
#include "models/results/figures.hpp"
#include "models/results/step_range.hpp"
#include "models/results/switch_report.hpp"
#include "models/results/throughput.hpp"
#include "models/time/memory.hpp"
#include "models/time/timeline.hpp"

namespace dovetail {

// One of the plans that were looked at and that no other of them beats in both time and memory; predicted.
struct FrontPoint {
  Seconds time;
  Bytes memory;  // peak of the fullest rank
  Plan plan;
};

// The knowledge of a search about the plans that it did not choose, by the analytic model.
struct Proof {
  std::string space;    // in words
  double points = 0;    // combinations of its knobs, contradictory ones included
  long predicted = 0;   // of them, in full
  long refused = 0;     // of those, because of their memory
  Seconds best, bound;  // the best that fits; no plan of the space that fits is faster than `bound`
  bool optimal() const { return bound >= best * (1 - 1e-9); }
};

struct PlannerReport {
  std::string name;
  std::string reason;  // why this plan: case, bound, table
  long evaluations = 0;
  Seconds time;                          // spent planning
  std::optional<double> regret;          // time of the choice over the best of the exhaustive oracle, minus 1
  std::optional<std::string> runner_up;  // "degree 2 / 8, 0.8 % slower"
  std::optional<Proof> proof;
  std::vector<FrontPoint> front;  // fastest first
  std::string choices = {};       // what it could choose, in words; empty: nothing was left open
};

// Steps of Adam that were really executed, each on words of its own.
struct TrainingReport {
  std::vector<double> losses;            // by step: the mean over its words, before its update
  std::vector<double> reference_losses;  // of the same training in sequence and in double; empty: not compared
  double loss_error = 0;                 // largest relative difference of a step's losses
  double weight_error = 0;               // relative Frobenius, of the weights after the last step
  std::optional<double> tolerance;       // of loss_error; none: it is not judged
  bool ok = true;
};

// Only for really executed plans.
struct RunReport {
  std::string device, transport;
  int ranks = 0;
  double dilation = 1;        // communication (and compute, if held) takes this times its modelled time
  double emulated_share = 0;  // of the ops' busy time
  long overruns = 0;          // ops whose real work outlasted their modelled time
  bool valid = true;          // few enough of them
  std::vector<Seconds> samples;
  Seconds ci95_low, ci95_high;
  std::string stopped_by;            // which criterion ended the measuring
  ClockReading clock;                // of a GPU while it was measured
  std::int64_t allocated_bytes = 0;  // by a device for a rank's tensors, and as scratch; 0: not known
  std::int64_t dropped = 0;          // choices over capacity in a step
  double output_error = 0;           // relative Frobenius against the double reference
  double gradient_error = 0;
  bool numerics_ok = false;
  bool numerics_checked = true;            // else nothing is known of them
  std::optional<TrainingReport> training;  // where one was asked for
  std::optional<SwitchReport> switching;   // the same
};

struct SystemResult {
  std::string system;
  Plan plan;
  PlannerReport planner;
  std::string backend;
  std::shared_ptr<const Schedule> schedule;
  Timeline timeline;
  Metrics metrics;
  Seconds lower_bound, plan_bound;
  MemoryUse memory;
  std::vector<MemoryByKind> memory_by_stage = {};  // by add_figures
  Throughput throughput = {};                      // by add_figures
  bool feasible = true;
  Bytes missing;  // device memory that lacks when not feasible
  std::optional<RunReport> run;
  std::optional<StepRange> range;   // of modelled results, where it was asked for
  std::vector<NetworkUse> network;  // by add_figures; empty without a described network
  Parallelism groups = {};          // the layout: groups, and the samples of a model-parallel group that go together
  int micro_batch = 0;
  std::vector<Bytes> stage_peaks = {};  // by stage
};

}  // namespace dovetail
