// SPDX-License-Identifier: Apache-2.0
// How well predictions agree with measured times. Intervals are 95 % percentile intervals over 2,000 bootstrap
// resamples.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/results/validation.hpp"

namespace dovetail::reports {

struct Estimate {
  double value = 0, low = 0, high = 0;
};

// |predicted / measured - 1|: the mean over all plans; resampled by cell, whose plans err together.
Estimate mean_error(const Validation& validation);

// The same of predictions without a fit. None: there are none.
std::optional<Estimate> mean_unfitted_error(const Validation& validation);

// A sentence to stand beside the figure: it says which part of a prediction mean_error judges.
std::string_view meaning_of_error(const Validation& validation);

// The mean over cells of the rank correlation of predicted and measured times.
Estimate mean_rank_correlation(const Validation& validation);

// Measurements against themselves: the medians of every second round as predictions of the other rounds' medians. It
// tells how much of a prediction's error may be noise; medians of all rounds have less of it. None: no plan was
// measured in two rounds.
struct Repeatability {
  double mean_error = 0, rank_correlation = 0;  // as mean_error() and mean_rank_correlation() have them
};
std::optional<Repeatability> repeatability(const Validation& validation);

// Measured time of the choice over that of the fastest measured plan of its system, minus 1; by the medians of
// resampled rounds. The best is chosen anew in every resample, so that a tie has no regret but an interval.
Estimate regret(const ValidationCell& cell, const ChoiceOutcome& choice);

struct PlannerRegret {
  std::string system, planner;
  double mean = 0, worst = 0;  // over cells
  std::string worst_cell;
  std::size_t cells = 0;
};
std::vector<PlannerRegret> planner_regrets(const Validation& validation);

// In how many cells and systems the fastest measured plan has the largest degree offered in neither pass. If that is
// never so, always taking the largest has no regret either.
struct BestDegrees {
  int largest = 0;
  std::size_t choices = 0, smaller = 0;
};
// None: the largest degree is not known.
std::optional<BestDegrees> best_degrees(const Validation& validation);
std::string meaning_of_degrees(const BestDegrees& best);  // a sentence

// The plan whose prediction is furthest off, and its cell. Throws InternalError without plans.
struct WorstPlan {
  const ValidationCell* cell = nullptr;
  const PlanOutcome* plan = nullptr;
};
WorstPlan worst_plan(const Validation& validation);

}  // namespace dovetail::reports
