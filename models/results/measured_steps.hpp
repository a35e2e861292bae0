// SPDX-License-Identifier: Apache-2.0
// Measured training steps beside predictions of them, as `dovetail reproduce steps` finds them out. Reports print it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/results/measured_time.hpp"

namespace dovetail {

// One step that was really run, as its source measured it, and as the question that states it is answered.
struct MeasuredStep : MeasuredTime {
  std::string source_name;  // its name at the source, where that is longer; empty: the same
  std::string model;
  int job = 0;  // of its source: steps of one job train a model of one name and size on as many tokens
  int gpus = 0;
  double tokens = 0;                   // of a step, over all ranks
  std::optional<Bytes> measured_peak;  // of the fullest GPU; none: it was not measured
  Bytes predicted_peak;
};
std::optional<double> peak_error(const MeasuredStep& step);  // predicted / measured - 1; none: it was not measured

// A step of the source that no question here states.
struct UnstatedStep {
  std::string name, why;
};

// One file of measured steps.
struct StepsTable : MeasuredSource {
  std::vector<MeasuredStep> steps;
  std::vector<UnstatedStep> not_stated;
};

// How near the predictions of one source came. Values do not exist where no step has what they need.
struct StepsSummary : TimesSummary {
  std::string source;  // id of the file
  int not_stated = 0;
  int pairs = 0, in_order = 0;             // of steps of one job whose measured times differ
  std::optional<double> rank_correlation;  // of predicted and measured steps
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
