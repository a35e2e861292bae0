// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/online_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <ranges>
#include <utility>

#include "bench/validate/grid_size.hpp"
#include "planners/online/online.hpp"

namespace dovetail::bench {
namespace {

constexpr int replays = 100, steps = 1000;  // an answer of the slowest takes 30 steps at each size

using Times = std::vector<const PlanOutcome*>;  // of the strategies

struct SizeTimes {
  int tokens = 0;
  Times times;
  Seconds best() const { return (*std::ranges::min_element(times, {}, &PlanOutcome::median))->median; }
};

GridSize without_tokens(GridSize size) {
  size.scale.tokens_per_rank = 1;
  size.scale.sequence = 0;
  return size;
}

std::vector<SizeParts> all_parts(std::span<const MeasuredSize> measured) {
  std::vector<SizeParts> parts;
  for (const MeasuredSize& m : measured) parts.push_back(size_parts(*m.size));
  return parts;
}

// Sizes that differ in their tokens alone, fewest first.
std::vector<std::vector<MeasuredSize>> alike(std::span<const MeasuredSize> measured) {
  std::vector<std::vector<MeasuredSize>> sets;
  const auto name = [](const MeasuredSize& m) { return size_name(without_tokens(*m.size)); };
  for (const MeasuredSize& m : measured) {
    const auto set = std::ranges::find_if(sets, [&](const auto& s) { return name(s.front()) == name(m); });
    (set == sets.end() ? sets.emplace_back() : *set).push_back(m);
  }
  for (auto& set : sets)
    std::ranges::sort(set, {}, [](const MeasuredSize& m) { return m.size->scale.tokens_per_rank; });
  return sets;
}

const PlanOutcome* find(const ValidationCell& cell, const std::string& system, const Plan& plan) {
  const auto at =
      std::ranges::find_if(cell.plans, [&](const PlanOutcome& p) { return p.system == system && p.plan == plan; });
  return at == cell.plans.end() ? nullptr : &*at;
}

// The strategies at each size, those of fewer chunks first.
std::vector<SizeTimes> times_of(const std::vector<MeasuredSize>& set, const std::string& system) {
  std::vector<Plan> plans;
  for (const PlanOutcome& p : set.front().cell->plans)
    if (p.system == system &&
        std::ranges::all_of(set, [&](const MeasuredSize& m) { return find(*m.cell, system, p.plan); }))
      plans.push_back(p.plan);
  std::ranges::stable_sort(plans, {}, &Plan::forward_degree);
  std::vector<SizeTimes> sizes;
  for (const MeasuredSize& m : set) {
    SizeTimes& size = sizes.emplace_back(m.size->scale.tokens_per_rank, Times());
    for (const Plan& plan : plans) size.times.push_back(find(*m.cell, system, plan));
  }
  return sizes;
}

struct Regret {
  double all = 0, late = 0;
};

Regret replay(const std::string& planner, const std::vector<SizeTimes>& sizes, std::uint64_t seed) {
  planners::OnlineSettings settings;
  settings.context = "measured plans";
  for (std::size_t i = 0; i < sizes.front().times.size(); ++i) settings.strategies.push_back(std::to_string(i));
  const auto learner = planners::make_online(planner, std::move(settings));
  std::mt19937_64 random(seed);
  Seconds taken, best, late_taken, late_best;
  for (int step = 0; step < steps; ++step) {
    const SizeTimes& size = sizes[random() % sizes.size()];
    const std::size_t chosen = learner->choose({1, static_cast<double>(size.tokens) / sizes.front().tokens});
    const PlanOutcome& plan = *size.times[chosen];
    learner->report(plan.samples[random() % plan.samples.size()]);
    taken += plan.median;
    best += size.best();
    if (2 * step < steps) continue;
    late_taken += plan.median;
    late_best += size.best();
  }
  return {taken / best - 1, late_taken / late_best - 1};
}

OnlineOutcome replays_of(const GridOnline& online, const std::vector<SizeTimes>& sizes, std::uint64_t seed) {
  std::vector<double> regrets;
  OnlineOutcome outcome{online.planner, online.system, "", sizes.size(), sizes.front().times.size(), steps, replays};
  for (int i = 0; i < replays; ++i) {
    const Regret regret = replay(online.planner, sizes, seed + static_cast<std::uint64_t>(i));
    regrets.push_back(regret.all);
    outcome.late_regret += regret.late / replays;
  }
  outcome.regret = std::reduce(regrets.begin(), regrets.end()) / replays;
  std::ranges::sort(regrets);
  outcome.low = regrets[replays / 40];
  outcome.high = regrets[replays - 1 - replays / 40];
  return outcome;
}

}  // namespace

bool has_alike(const ValidationGrid& grid, const GridSize& size) {
  const std::string name = size_name(without_tokens(size));
  return std::ranges::count_if(grid.predict,
                               [&](const GridSize& other) { return size_name(without_tokens(other)) == name; }) > 1;
}

std::vector<OnlineOutcome> replay_online(const ValidationGrid& grid, std::span<const MeasuredSize> measured,
                                         std::uint64_t seed) {
  std::vector<OnlineOutcome> outcomes;
  const SizeParts of_all = shared_parts(all_parts(measured));
  for (const GridOnline& online : grid.online)
    for (const std::vector<MeasuredSize>& set : alike(measured)) {
      if (set.size() < 2) continue;
      const std::vector<SizeTimes> sizes = times_of(set, online.system);
      if (sizes.front().times.size() < 2) continue;
      outcomes.push_back(replays_of(online, sizes, seed));
      outcomes.back().where = name_without(shared_parts(all_parts(set)), of_all);
    }
  return outcomes;
}

}  // namespace dovetail::bench
