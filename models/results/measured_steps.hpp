// SPDX-License-Identifier: Apache-2.0
// Measured training steps beside predictions of them, as `dovetail reproduce steps` finds them out. Reports print it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/results/step_range.hpp"

namespace dovetail {

// One step that was really run, as its source measured it, and as the question that states it is answered.
struct MeasuredStep {
  std::string name, note;   // note: what the statement leaves out or takes otherwise; empty: nothing
  std::string source_name;  // its name at the source, where that is longer; empty: the same
  std::string model;
  int job = 0;  // of its source: steps of one job train a model of one name and size on as many tokens
  int gpus = 0;
  double tokens = 0;  // of a step, over all ranks
  Seconds measured, predicted;
  std::optional<Bytes> measured_peak;  // of the fullest GPU; none: it was not measured
  Bytes predicted_peak;
  std::optional<StepRange> range;  // ratios to `predicted`; none: it was not asked for
};
double step_error(const MeasuredStep& step);                 // predicted / measured - 1
std::optional<double> peak_error(const MeasuredStep& step);  // the same of the memory; none: it was not measured
std::optional<bool> range_holds(const MeasuredStep& step);   // whether `measured` lies in it; none: there is none
Seconds range_low(const MeasuredStep& step);                 // `predicted` where there is no range
Seconds range_high(const MeasuredStep& step);

// A step of the source that no question here states.
struct UnstatedStep {
  std::string name, why;
};

// One file of measured steps.
struct StepsTable {
  std::string id, title, source, licence;
  std::vector<MeasuredStep> steps;
  std::vector<UnstatedStep> not_stated;
  std::vector<std::string> notes;  // that hold for all of its steps
};

// How near the predictions of one source came. Values do not exist where no step has what they need.
struct StepsSummary {
  std::string source;  // id of the file
  int steps = 0, not_stated = 0;
  std::optional<double> mean_error, median_error;  // of |predicted / measured - 1|
  std::optional<double> signed_error;              // mean of predicted / measured - 1
  int pairs = 0, in_order = 0;                     // of steps of one job whose measured times differ
  std::optional<double> rank_correlation;          // of predicted and measured steps
  int ranges = 0, held = 0;                        // ranges that hold the measured step
  int peaks = 0;
  std::optional<double> peak_error;  // mean of |predicted / measured - 1| of the memory
};
// Source by source, in order; of several, all together at the end under "all", whose pairs are those of the sources.
std::vector<StepsSummary> summarise(std::span<const StepsTable> tables);

// A cost that is among the most important ones of some steps of a source.
struct InfluentialCost {
  std::string cost;
  Origin origin = Origin::Assumed;
  double within = 1;          // the cost is known within this factor
  int steps = 0;              // among whose most important costs it is
  double fast = 1, slow = 1;  // means over these of the step's ratio while the cost is at an end of its range
};
// The five that matter most, or fewer: by the sum over all steps of how wide each makes the step's range.
std::vector<InfluentialCost> influential_costs(const StepsTable& table);

}  // namespace dovetail
