// SPDX-License-Identifier: Apache-2.0
#include "reports/data/validation_statistics.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

enum class Against { System, All };

// The median of a plan in all rounds but one; in that one if there is no other.
double without_round(const PlanOutcome& plan, std::size_t round) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < plan.samples.size(); ++i)
    if (i != round || plan.samples.size() == 1) samples.push_back(plan.samples[i].value());
  return median(std::move(samples));
}

// In each round, the choice over the plan that is the fastest in all other rounds, minus 1. The luckiest of many plans
// has no advantage then, and what slowed a round slowed both.
std::vector<double> regrets_by_round(const ValidationCell& cell, const ChoiceOutcome& choice, Against against) {
  const PlanOutcome& chosen = cell.plans[choice.plan];
  std::vector<double> regrets;
  for (std::size_t round = 0; round < chosen.samples.size(); ++round) {
    const PlanOutcome* best = &chosen;
    for (const PlanOutcome& plan : cell.plans)
      if ((against == Against::All || plan.system == choice.system) && plan.samples.size() > round &&
          without_round(plan, round) < without_round(*best, round))
        best = &plan;
    regrets.push_back(chosen.samples[round] / best->samples[round] - 1);
  }
  return regrets;
}

std::vector<double> resampled(const std::vector<double>& values, Random& random) {
  std::vector<double> again;
  for (std::size_t i = 0; i < values.size(); ++i) again.push_back(values[index_below(random, values.size())]);
  return again;
}

struct Chosen {
  const ValidationCell* cell = nullptr;
  const ChoiceOutcome* choice = nullptr;
};

// The mean of the choices' regrets; the rounds of each cell are resampled by themselves.
Estimate mean_regret(const std::vector<Chosen>& all, Against against) {
  std::vector<std::vector<double>> rounds;
  for (const Chosen& c : all) rounds.push_back(regrets_by_round(*c.cell, *c.choice, against));
  const auto mean = [&](Random* random) {
    double sum = 0;
    for (const std::vector<double>& of_cell : rounds)
      sum += median(random == nullptr ? of_cell : resampled(of_cell, *random));
    return sum / static_cast<double>(rounds.size());
  };
  Random random(seed);
  std::vector<double> again;
  for (std::size_t i = 0; i < resamples; ++i) again.push_back(mean(&random));
  return interval(mean(nullptr), std::move(again));
}

PlannerRegret summary_of(const std::vector<Chosen>& all) {
  const ChoiceOutcome& first = *all.front().choice;
  PlannerRegret r{first.system, first.planner, mean_regret(all, Against::System), -1, "", all.size(), {}, {}, 0};
  for (const Chosen& c : all)
    if (const double here = median(regrets_by_round(*c.cell, *c.choice, Against::System)); here > r.worst) {
      r.worst = here;
      r.worst_cell = c.cell->name;
    }
  for (const auto& [name, regime] : regime_names) {
    std::vector<Chosen> some = all;
    std::erase_if(some, [&, of = regime](const Chosen& c) { return regime_of(*c.cell) != of; });
    if (!some.empty()) r.by_regime.emplace_back(regime, mean_regret(some, Against::System));
  }
  r.behind_all = mean_regret(all, Against::All);
  for (const Chosen& c : all) {
    const auto best = std::ranges::min_element(c.cell->plans, {}, &PlanOutcome::median);
    r.behind_all_by_medians += c.cell->plans[c.choice->plan].median / best->median - 1;
  }
  r.behind_all_by_medians /= static_cast<double>(all.size());
  return r;
}

int smallest_degree(const Plan& plan) {
  int smallest = std::min(plan.forward_degree, plan.backward_degree);
  if (!plan.backward_degrees.empty()) smallest = std::min(plan.forward_degree, std::ranges::min(plan.backward_degrees));
  return smallest;
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
  return mean_regret({{&cell, &choice}}, Against::System);
}

double links_to_computation(const ValidationCell& cell) {
  const auto chunks = [](const PlanOutcome& p) { return std::pair(largest_degree(p.plan), p.plan.restore); };
  const double links = std::ranges::min_element(cell.plans, {}, chunks)->emulated_share;
  return links / (1 - links);
}

Regime regime_of(const ValidationCell& cell) {
  constexpr double clear = 1.5;
  const double ratio = links_to_computation(cell);
  return ratio > clear ? Regime::Links : ratio * clear < 1 ? Regime::Computation : Regime::Mixed;
}

std::vector<PlannerRegret> planner_regrets(const Validation& validation) {
  std::vector<std::vector<Chosen>> all;  // by system and planner
  for (const ValidationCell& cell : validation.cells)
    for (const ChoiceOutcome& choice : cell.choices) {
      const auto of = std::ranges::find_if(all, [&](const std::vector<Chosen>& some) {
        return some.front().choice->system == choice.system && some.front().choice->planner == choice.planner;
      });
      (of == all.end() ? all.emplace_back() : *of).push_back({&cell, &choice});
    }
  std::vector<PlannerRegret> regrets;
  for (const std::vector<Chosen>& some : all) regrets.push_back(summary_of(some));
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
      if (largest_degree(plan->plan) < best.largest) {
        ++best.smaller;
        if (smallest_degree(plan->plan) > 1) ++best.inside;
      }
  }
  return best;
}

std::string meaning_of_degrees(const BestDegrees& best) {
  return fmt::format(
      "In {} of {} (size, system) the fastest measured plan has another degree than the largest, {}, and in {} of them "
      "one inside the range; where it is always at one end, a regret of 0 means nothing.",
      best.smaller, best.choices, best.largest, best.inside);
}

std::string meaning_of_regimes(const Validation& validation) {
  std::vector<std::string> cells;
  for (const ValidationCell& cell : validation.cells)
    cells.push_back(fmt::format("{:.2g}", links_to_computation(cell)));
  return fmt::format(
      "Links are busy for {} times as long as computation, size by size; within 1.5 both ways it is mixed. A planner's "
      "regret is against the fastest measured plan of its system, the median of rounds in each of which the fastest is "
      "that of all other rounds; the last columns have it against all measured plans, which do the same work, so and "
      "by "
      "medians of all rounds, where the luckiest plan counts.",
      fmt::join(cells, ", "));
}

std::string regret_where(const PlannerRegret& regret, Regime regime) {
  for (const auto& [of, mean] : regret.by_regime)
    if (of == regime) return fmt::format("{:.2f}", 100 * mean.value);
  return "-";
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
