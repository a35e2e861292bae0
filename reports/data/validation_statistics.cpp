// SPDX-License-Identifier: Apache-2.0
#include "reports/data/validation_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "models/base/errors.hpp"
#include "models/results/rank_correlation.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t resamples = 2000;
constexpr std::uint64_t seed = 1;

using Random = std::mt19937_64;

std::size_t index_below(Random& random, std::size_t count) {
  return random() % count;
}

Estimate interval(double value, std::vector<double> resampled) {
  std::ranges::sort(resampled);
  return {value, resampled[resamples / 40], resampled[resamples - 1 - resamples / 40]};
}

// The mean over cells that `of` gives values of; resampled by cell.
Estimate mean_over_cells(const Validation& validation,
                         const std::function<std::vector<double>(const ValidationCell&)>& of) {
  std::vector<std::vector<double>> values;
  for (const ValidationCell& cell : validation.cells)
    if (std::vector<double> v = of(cell); !v.empty()) values.push_back(std::move(v));
  if (values.empty()) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    return {none, none, none};
  }
  const auto mean_of = [&](const std::function<std::size_t(std::size_t)>& pick) {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::vector<double>& v = values[pick(i)];
      sum += std::reduce(v.begin(), v.end());
      count += v.size();
    }
    return sum / static_cast<double>(count);
  };
  Random random(seed);
  std::vector<double> resampled;
  for (std::size_t i = 0; i < resamples; ++i)
    resampled.push_back(mean_of([&](std::size_t) { return index_below(random, values.size()); }));
  return interval(mean_of([](std::size_t i) { return i; }), std::move(resampled));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// `random`, if any, resamples rounds, the same for all plans: what slowed a round slowed all of them.
double regret_of(const ValidationCell& cell, const ChoiceOutcome& choice, Random* random) {
  std::vector<std::uint64_t> rounds;
  if (random != nullptr)
    for (std::size_t s = 0; s < cell.plans[choice.plan].samples.size(); ++s) rounds.push_back((*random)());
  double best = std::numeric_limits<double>::infinity(), chosen = best;
  for (std::size_t i = 0; i < cell.plans.size(); ++i) {
    const PlanOutcome& plan = cell.plans[i];
    if (plan.system != choice.system) continue;
    double time = plan.median.value();
    if (random != nullptr) {
      std::vector<double> samples;
      for (std::uint64_t round : rounds) samples.push_back(plan.samples[round % plan.samples.size()].value());
      time = median(std::move(samples));
    }
    best = std::min(best, time);
    if (i == choice.plan) chosen = time;
  }
  return chosen / best - 1;
}

int largest_degree(const Plan& plan) {
  int largest = std::max(plan.forward_degree, plan.backward_degree);
  if (!plan.backward_degrees.empty()) largest = std::max(plan.forward_degree, std::ranges::max(plan.backward_degrees));
  return largest;
}

}  // namespace

Estimate mean_error(const Validation& validation) {
  return mean_over_cells(validation, [](const ValidationCell& cell) {
    std::vector<double> errors;
    for (const PlanOutcome& plan : cell.plans) errors.push_back(std::fabs(plan.error()));
    return errors;
  });
}

std::optional<Estimate> mean_unfitted_error(const Validation& validation) {
  const Estimate error = mean_over_cells(validation, [](const ValidationCell& cell) {
    std::vector<double> errors;
    for (const PlanOutcome& plan : cell.plans)
      if (plan.unfitted) errors.push_back(std::fabs(*plan.unfitted / plan.median - 1));
    return errors;
  });
  return std::isnan(error.value) ? std::nullopt : std::optional(error);
}

std::string_view meaning_of_error(const Validation& validation) {
  return validation.kernels_held
             ? "Every operation is held to its modelled time: the error is of scheduling and overlap alone and says "
               "nothing of the accuracy of costs."
             : "Links are held to their modelled times: the error is of kernels, scheduling and overlap, and says "
               "nothing of the accuracy of the links' costs.";
}

Estimate mean_rank_correlation(const Validation& validation) {
  return mean_over_cells(validation, [](const ValidationCell& cell) {
    std::vector<double> predicted, measured;
    for (const PlanOutcome& plan : cell.plans) {
      predicted.push_back(plan.predicted.value());
      measured.push_back(plan.median.value());
    }
    if (predicted.size() < 2) return std::vector<double>{};
    const double r = rank_correlation(predicted, measured);
    return std::isfinite(r) ? std::vector{r} : std::vector<double>{};
  });
}

std::optional<Repeatability> repeatability(const Validation& validation) {
  Validation halves;
  for (const ValidationCell& cell : validation.cells) {
    ValidationCell& half = halves.cells.emplace_back();
    for (const PlanOutcome& plan : cell.plans) {
      std::array<std::vector<double>, 2> rounds;
      for (std::size_t i = 0; i < plan.samples.size(); ++i) rounds[i % 2].push_back(plan.samples[i].value());
      if (rounds[1].empty()) continue;
      PlanOutcome& against = half.plans.emplace_back();
      against.predicted = Seconds(median(rounds[1]));
      against.median = Seconds(median(rounds[0]));
    }
    if (half.plans.empty()) halves.cells.pop_back();
  }
  if (halves.cells.empty()) return {};
  return Repeatability{mean_error(halves).value, mean_rank_correlation(halves).value};
}

Estimate regret(const ValidationCell& cell, const ChoiceOutcome& choice) {
  Random random(seed);
  std::vector<double> resampled;
  for (std::size_t i = 0; i < resamples; ++i) resampled.push_back(regret_of(cell, choice, &random));
  return interval(regret_of(cell, choice, nullptr), std::move(resampled));
}

std::vector<PlannerRegret> planner_regrets(const Validation& validation) {
  std::vector<PlannerRegret> regrets;
  for (const ValidationCell& cell : validation.cells)
    for (const ChoiceOutcome& choice : cell.choices) {
      auto of = std::ranges::find_if(
          regrets, [&](const PlannerRegret& r) { return r.system == choice.system && r.planner == choice.planner; });
      if (of == regrets.end()) of = regrets.insert(of, {choice.system, choice.planner, 0, -1, "", 0});
      const double here = regret_of(cell, choice, nullptr);
      of->mean += here;
      ++of->cells;
      if (here > of->worst) {
        of->worst = here;
        of->worst_cell = cell.name;
      }
    }
  for (PlannerRegret& r : regrets) r.mean /= static_cast<double>(r.cells);
  return regrets;
}

std::optional<BestDegrees> best_degrees(const Validation& validation) {
  if (validation.largest_degree == 0) return {};
  BestDegrees best{validation.largest_degree};
  for (const ValidationCell& cell : validation.cells) {
    std::map<std::string, const PlanOutcome*> fastest;
    for (const PlanOutcome& plan : cell.plans)
      if (auto& of = fastest[plan.system]; of == nullptr || plan.median < of->median) of = &plan;
    best.choices += fastest.size();
    for (const auto& [system, plan] : fastest)
      if (largest_degree(plan->plan) < best.largest) ++best.smaller;
  }
  return best;
}

std::string meaning_of_degrees(const BestDegrees& best) {
  return fmt::format(
      "In {} of {} (size, system) the fastest measured plan has another degree than the largest, {}; where it is "
      "always "
      "the largest, a regret of 0 means nothing.",
      best.smaller, best.choices, best.largest);
}

WorstPlan worst_plan(const Validation& validation) {
  WorstPlan worst;
  for (const ValidationCell& cell : validation.cells)
    for (const PlanOutcome& plan : cell.plans)
      if (worst.plan == nullptr || std::fabs(plan.error()) > std::fabs(worst.plan->error())) worst = {&cell, &plan};
  check(worst.plan != nullptr, "no plan was validated");
  return worst;
}

}  // namespace dovetail::reports
