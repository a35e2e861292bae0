// SPDX-License-Identifier: Apache-2.0
// The findings of a validation: plans predicted and measured on sizes that no cost was fitted to. Reports print it.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/price/calibration.hpp"
#include "models/results/device_point.hpp"
#include "models/results/result.hpp"
#include "models/schedule/op.hpp"

namespace dovetail {

// All ops of one kind and pass in a step. Emulated: held to a modelled time.
struct OpTimes {
  OpKind op = OpKind::Expert;
  Phase phase = Phase::Forward;
  bool emulated = false;
  Seconds predicted, measured;  // summed over the step
};

// The memory of a rank. Peaks follow from lifetimes, over the predicted and over the measured step. `allocated` is what
// a device allocated for all tensors and as scratch; 0: not known.
struct MemoryOutcome {
  Bytes predicted_peak, measured_peak, allocated;
};

struct PlanOutcome {
  std::string system;
  Plan plan;
  Seconds predicted;
  std::optional<Seconds> unfitted;  // predicted by costs that nothing was fitted to; none: of hosts
  Seconds bound;  // plan_bound with the durations of the measured step: modelled where held; mean of the rounds
  MemoryOutcome memory;
  std::vector<Seconds> samples;  // of the measured step: the median of each round through all plans
  Seconds median, ci95_low, ci95_high;
  double emulated_share = 0;        // of the ops' busy time
  long overruns = 0;                // held ops whose real work outlasted their modelled time
  std::optional<bool> numerics_ok;  // none: not checked
  std::vector<OpTimes> ops;

  double error() const { return predicted / median - 1; }
};

// The choice of a planner by predictions, against the best measured plan of the same system.
struct ChoiceOutcome {
  std::string system, planner;
  std::size_t plan = 0;  // of the cell
};

// One size: every plan that any planner considered for any system.
struct ValidationCell {
  std::string name;
  std::vector<PlanOutcome> plans;
  std::vector<ChoiceOutcome> choices;
  std::size_t looked_at = 0;  // plans by planners, of which all or some are measured
};

// A planner that learns, over steps of several sizes whose times were measured: its strategies are the measured plans
// of a system, and each step takes what one of the rounds took. How much longer the steps take than with the fastest
// plan at each size: the mean over replays, and the range of 95 % of them.
struct OnlineOutcome {
  std::string planner, system, where;  // where: what the sizes have in common; empty: everything
  std::size_t sizes = 0, strategies = 0;
  int steps = 0, replays = 0;
  double regret = 0, low = 0, high = 0;
  double late_regret = 0;  // of the second half of the steps
};

// The same work on the same device by this program and by another.
struct PeerComparison {
  std::string name;
  DevicePoint ours, peer;
  double efficiency() const { return peer.median / ours.median; }  // above 1: ours is faster
};

// A step of another program without exchanges, beside one of ours at degree 1.
struct StepComparison {
  std::string what, system;
  Seconds peer, peer_low, peer_high;
  Seconds ours, ours_compute;  // the whole step, exchanges held; and how long its compute stream was busy
};

// Measurements on a device beside those of plans, our own and those of other programs.
struct DeviceStudy {
  std::vector<DevicePoint> points;
  std::vector<PeerComparison> peers;
  std::optional<StepComparison> step;
  std::vector<std::pair<std::string, std::string>> labels;  // device, driver, libraries, clocks, revision
};

// How many of the planned measurements were made; fewer than all if time ran out.
struct Progression {
  long made = 0, all = 0;
  bool partial() const { return made < all; }
};

struct Validation {
  Experiment experiment;                // of the first cell
  bool kernels_held = false;            // to modelled times, as links are; times are then in modelled time
  std::vector<KernelCost> kernels;      // fitted to other sizes
  std::optional<MemoryCost> copy;       // the same of copies to and from the host; none: held, or none was made
  std::string unfitted_by;              // the calibration of the predictions without a fit; empty: there are none
  int largest_degree = 0;               // that planners choose among; 0: not known
  std::vector<std::string> calibrated;  // those sizes
  std::vector<ValidationCell> cells;
  std::vector<OnlineOutcome> online;
  Progression measurements;
  DeviceStudy device;
  std::vector<std::string> notes;
  RunProvenance provenance;
};

}  // namespace dovetail
