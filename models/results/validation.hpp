// What a validation found out: plans predicted and measured on sizes that no cost was fitted to. Reports print it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/price/calibration.hpp"
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

struct PlanOutcome {
  std::string system;
  Plan plan;
  Seconds predicted;
  std::vector<Seconds> samples;  // of the measured step: the median of each round through all plans
  Seconds median, ci95_low, ci95_high;
  double emulated_share = 0;        // of the ops' busy time
  long overruns = 0;                // held ops whose real work outlasted their modelled time
  std::optional<bool> numerics_ok;  // none: not checked
  std::vector<OpTimes> ops;

  double error() const { return predicted / median - 1; }
};

// What a planner chose by predictions, against the best measured plan of the same system.
struct ChoiceOutcome {
  std::string system, planner;
  std::size_t plan = 0;  // of the cell
};

// One size: every plan that any planner considered for any system.
struct ValidationCell {
  std::string name;
  std::vector<PlanOutcome> plans;
  std::vector<ChoiceOutcome> choices;
};

struct Validation {
  Experiment experiment;                // of the first cell
  bool kernels_held = false;            // to modelled times, as links are; times are then in modelled time
  std::vector<KernelCost> kernels;      // fitted to other sizes
  std::vector<std::string> calibrated;  // those sizes
  std::vector<ValidationCell> cells;
  std::vector<std::string> notes;
  RunProvenance provenance;
};

}  // namespace dovetail
