// SPDX-License-Identifier: Apache-2.0
#include "models/results/step_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/base/draws.hpp"
#include "models/base/errors.hpp"
#include "models/price/cost_ranges.hpp"
#include "models/price/price.hpp"
#include "models/price/speed_events.hpp"
#include "models/time/analytic_backend.hpp"

namespace dovetail {
namespace {

using Schedules = std::span<const std::shared_ptr<const Schedule>>;

// Times the schedules of one experiment with other costs.
class Retiming {
 public:
  Retiming(const Experiment& experiment, Schedules schedules) : experiment_(experiment), schedules_(schedules) {
    nominal_ = times(*experiment.calibration);
  }

  // The time of each schedule over that with the experiment's own costs.
  std::vector<double> ratios(Calibration costs) {
    std::vector<double> result = times(std::move(costs));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = nominal_[i] > 0 ? result[i] / nominal_[i] : 1;
    return result;
  }

 private:
  std::vector<double> times(Calibration costs) {
    experiment_.calibration = Shared(std::move(costs));
    std::vector<double> result;
    for (const auto& schedule : schedules_) {
      PricedSchedule priced = price(schedule, experiment_);
      inject(experiment_.events, priced);
      result.push_back(analytic_makespan(priced, scratch_).value());
    }
    return result;
  }

  Experiment experiment_;
  Schedules schedules_;
  std::vector<double> nominal_;
  std::vector<double> scratch_;
};

// Interpolated between neighbours.
double quantile(const std::vector<double>& ascending, double share) {
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return std::lerp(ascending[below], ascending[above], at - static_cast<double>(below));
}

void set_ends(StepRange& range) {
  std::vector<double> ascending = range.draws;
  std::ranges::sort(ascending);
  range.low = quantile(ascending, (1 - StepRange::level) / 2);
  range.high = quantile(ascending, (1 + StepRange::level) / 2);
}

// A draw of what is not counted, which only ever makes a step longer.
double left_out(const TrainingFramework& framework, std::uint64_t seed) {
  return std::pow(framework.left_out, std::abs(normal_draw(mixed(seed, "left out"))) / nine_of_ten);
}

void add_influences(const CostRanges& ranges, const StepRatios& ratios, const TrainingFramework& framework,
                    std::vector<StepRange>& steps) {
  constexpr std::size_t most = 3;
  constexpr double least_width = 1e-3;  // of a cost that matters
  for (std::size_t c = 0; c < ranges.costs().size(); ++c) {
    const std::vector<double> fast = ratios(ranges.at_end(c, -1)), slow = ratios(ranges.at_end(c, 1));
    const auto& [name, origin, within] = ranges.costs()[c];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CostInfluence influence{name, origin, within, fast[i], slow[i]};
      if (influence.width() > least_width) steps[i].costs.push_back(std::move(influence));
    }
  }
  const double beside = framework.left_out;
  for (StepRange& step : steps) {
    if (beside > 1) step.costs.push_back({"what is not counted", Origin::Assumed, beside, 1, beside});
    std::ranges::stable_sort(step.costs, std::ranges::greater(), &CostInfluence::width);
    if (step.costs.size() > most) step.costs.resize(most);
  }
}

}  // namespace

int affordable_draws(Schedules schedules, int wanted) {
  constexpr double most_ops = 5e6, least = 20;
  double ops = 1;
  for (const auto& schedule : schedules) ops += static_cast<double>(schedule->ops.size());
  return std::min(wanted, static_cast<int>(std::max(least, most_ops / ops)));
}

std::vector<StepRange> step_ranges(const Experiment& experiment, std::size_t count, const StepRatios& ratios, int draws,
                                   std::uint64_t seed) {
  check(draws > 0, "a range needs draws");
  std::vector<StepRange> steps(count);
  const CostRanges ranges(*experiment.calibration);
  for (int draw = 0; draw < draws; ++draw) {
    const std::uint64_t own = mixed(seed) + static_cast<std::uint64_t>(draw);
    const std::vector<double> drawn = ratios(ranges.drawn(own));
    const double beside = left_out(experiment.framework, own);
    for (std::size_t i = 0; i < count; ++i) steps[i].draws.push_back(beside * drawn[i]);
  }
  for (StepRange& step : steps) set_ends(step);
  add_influences(ranges, ratios, experiment.framework, steps);
  return steps;
}

std::string range_note(const TrainingFramework& framework, std::string_view step, int draws) {
  const std::string beside = framework.left_out > 1
                                 ? fmt::format(", and of up to {:.0f} % for what is not counted of {}",
                                               100 * (framework.left_out - 1), framework.name)
                                 : "; what the model leaves out is not in it";
  return fmt::format(
      "90 % range: the {} in 90 % of {} draws of all costs, each within the range in which it is known{}", step, draws,
      beside);
}

std::vector<StepRange> step_ranges(const Experiment& experiment, Schedules schedules, int draws, std::uint64_t seed) {
  Retiming retiming(experiment, schedules);
  return step_ranges(
      experiment, schedules.size(), [&](Calibration costs) { return retiming.ratios(std::move(costs)); }, draws, seed);
}

}  // namespace dovetail
