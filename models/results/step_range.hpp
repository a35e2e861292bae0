// SPDX-License-Identifier: Apache-2.0
// How far a modelled step may be off because costs are (price/cost_ranges.hpp), and because of what a training
// framework does beside what is counted (TrainingFramework::left_out). Without a framework it does not hold what the
// model leaves out.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/provenance.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// A step while one cost is at the fast and at the slow end of its range and all others are as the calibration has them.
struct CostInfluence {
  std::string cost;
  Origin origin = Origin::Assumed;
  double within = 1;  // the cost is known within this factor
  double fast = 1, slow = 1;
  double width() const { return std::abs(std::log(slow / fast)); }
};

// Ratios to the step whose costs are as the calibration has them.
struct StepRange {
  static constexpr double level = .9;
  double low = 1, high = 1;          // between them lie nine of ten draws of all costs
  std::vector<double> draws;         // the ratio in each draw; a draw gives the same costs to all steps of a question
  std::vector<CostInfluence> costs;  // the three that matter most, or fewer; the first matters most
};

// The ranges of so many steps. `ratios`: the time of each step with these costs over that with the calibration's own.
using StepRatios = std::function<std::vector<double>(Calibration costs)>;
std::vector<StepRange> step_ranges(const Experiment& experiment, std::size_t steps, const StepRatios& ratios, int draws,
                                   std::uint64_t seed);

// "90 % range: the step in 90 % of 200 draws of all costs, ...". `step`: how it was found, "estimated step" for one.
std::string range_note(const TrainingFramework& framework, std::string_view step, int draws);

// The draws that these schedules get: those that are wanted, or fewer, but at least 20, where all of them would
// simulate more than 5 million operations.
int affordable_draws(std::span<const std::shared_ptr<const Schedule>> schedules, int wanted);

// The range of each schedule's step. Each is priced and timed by the analytic model with every draw of all costs, and
// with each cost at both ends of its range.
std::vector<StepRange> step_ranges(const Experiment& experiment,
                                   std::span<const std::shared_ptr<const Schedule>> schedules, int draws,
                                   std::uint64_t seed);

}  // namespace dovetail
