// SPDX-License-Identifier: Apache-2.0
// How well predictions agree with measured times. Intervals are 95 % percentile intervals over 2,000 bootstrap
// resamples.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.hpp"
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

// Measured time of the choice over that of the fastest measured plan of its system, minus 1: the median of rounds, in
// each of which the fastest is that of all other rounds. Otherwise the luckiest of many plans would be the measure. The
// interval is of resampled rounds. Below 0: the plan that was faster elsewhere was slower there.
Estimate regret(const ValidationCell& cell, const ChoiceOutcome& choice);

// The steps of a cell are bound by links if they are busy for more than 1.5 times as long as computation in the
// measured plan of the fewest chunks, computation if it is the other way round.
enum class Regime { Computation, Mixed, Links };
inline constexpr Names<Regime, 3> regime_names{
    {{"computation", Regime::Computation}, {"mixed", Regime::Mixed}, {"links", Regime::Links}}};
double links_to_computation(const ValidationCell& cell);
Regime regime_of(const ValidationCell& cell);

// Means over cells, with the intervals that resampled rounds give. A cell has one choice of a planner for a system.
struct PlannerRegret {
  std::string system, planner;
  Estimate mean;
  double worst = 0;
  std::string worst_cell;
  std::size_t cells = 0;
  std::vector<std::pair<Regime, Estimate>> by_regime;  // those that cells have, in the order of Regime
  Estimate behind_all;  // against the fastest measured plan of any system: what the system cannot do counts too
  double behind_all_by_medians = 0;  // the same of medians of all rounds: too much, as the luckiest plan counts
};
std::vector<PlannerRegret> planner_regrets(const Validation& validation);

// In how many cells and systems the fastest measured plan has the largest degree offered in neither pass, and in how
// many it has neither the largest nor one chunk in some pass. If that is never so, always taking an end of the range
// has no regret either.
struct BestDegrees {
  int largest = 0;
  std::size_t choices = 0, smaller = 0, inside = 0;
};
// None: the largest degree is not known.
std::optional<BestDegrees> best_degrees(const Validation& validation);
std::string meaning_of_degrees(const BestDegrees& best);  // a sentence
std::string meaning_of_regimes(const Validation& validation);
// "1.23", of the cells of a regime; "-": there are none.
std::string regret_where(const PlannerRegret& regret, Regime regime);

// The plan whose prediction is furthest off, and its cell. Throws InternalError without plans.
struct WorstPlan {
  const ValidationCell* cell = nullptr;
  const PlanOutcome* plan = nullptr;
};
WorstPlan worst_plan(const Validation& validation);

}  // namespace dovetail::reports
