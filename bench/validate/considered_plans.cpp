// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/considered_plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/validate/held_exchanges.hpp"
#include "bench/validate/online_replay.hpp"
#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"

namespace dovetail::bench {
namespace {

using PlannedBy = std::vector<std::pair<std::string, Plan>>;  // choices with their planners

Seconds predict(const Experiment& e, const Plan& plan) {
  std::vector<double> scratch;
  return analytic_makespan(with_held_exchanges(e, plan, price_plan(e, plan)), scratch);
}

// Whether two plans differ in nothing but how they bring back what they did not keep.
bool restores_differ_only(const Plan& a, Plan b) {
  b.restore = a.restore;
  b.buffers = a.buffers;
  return a == b;
}

// In one chunk nothing takes over another's memory.
bool reuses_memory(const PlanOutcome& p) {
  return p.plan.restore != Restore::Keep && p.plan.forward_degree > 1;
}

// The outcomes that are measured: `most` of them, and those that are wanted however slow.
void keep_fastest(const ValidationGrid& grid, const PlannedBy& choices, std::vector<PlanOutcome>& outcomes) {
  const auto most = static_cast<std::size_t>(grid.measured_plans);
  if (most == 0 || outcomes.size() <= most) return;
  std::ranges::stable_sort(outcomes, {}, &PlanOutcome::predicted);
  const auto reusing = grid.strategies ? std::ranges::find_if(outcomes, reuses_memory) : outcomes.end();
  const std::optional<Plan> fastest = reusing == outcomes.end() ? std::nullopt : std::optional(reusing->plan);
  const auto wanted = [&](const PlanOutcome& p) {
    return std::ranges::find(choices, p.plan, &std::pair<std::string, Plan>::second) != choices.end() ||
           (fastest && restores_differ_only(*fastest, p.plan));
  };
  outcomes.erase(std::stable_partition(outcomes.begin() + static_cast<std::ptrdiff_t>(most), outcomes.end(), wanted),
                 outcomes.end());
}

bool is_learned(const ValidationGrid& grid, const GridSize& size, const System& system) {
  return has_alike(grid, size) && std::ranges::find(grid.online, system.name, &GridOnline::system) != grid.online.end();
}

void consider(const ValidationGrid& grid, const GridSize& size, const GridSystem& asked, const Experiment& e,
              ValidationCell& cell, std::vector<std::string>& notes) {
  const System& system = asked.system;
  std::vector<PlanOutcome> outcomes;
  const planners::Evaluator recording = [&](const Plan& plan) {
    const auto known = std::ranges::find(outcomes, plan, &PlanOutcome::plan);
    if (known != outcomes.end()) return known->predicted;
    const Seconds time = predict(e, plan);
    outcomes.push_back({});
    outcomes.back().system = system.name;
    outcomes.back().plan = plan;
    outcomes.back().predicted = time;
    return time;
  };
  std::vector<std::string> names{system.planner.name};
  for (const auto* more : {&asked.planners, &grid.planners})
    for (const std::string& name : *more)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  PlannedBy choices;
  for (const std::string& name : names) try {
      choices.emplace_back(name, planners::find_planner(name).choose({e, system.plan, system.planner}, recording).plan);
      recording(choices.back().second);
    } catch (const InputError& error) {
      notes.push_back(fmt::format("{}, {} by {}: left out, {}", cell.name, system.name, name, error.what()));
    }
  cell.looked_at += outcomes.size();
  if (!is_learned(grid, size, system)) keep_fastest(grid, choices, outcomes);
  for (const auto& [name, plan] : choices) {
    const auto at = std::ranges::find(outcomes, plan, &PlanOutcome::plan) - outcomes.begin();
    cell.choices.push_back({system.name, name, cell.plans.size() + static_cast<std::size_t>(at)});
  }
  std::ranges::move(outcomes, std::back_inserter(cell.plans));
}

}  // namespace

void predict_unfitted(const Experiment& e, ValidationCell& cell) {
  for (PlanOutcome& p : cell.plans) p.unfitted = predict(e, p.plan);
}

ValidationCell considered_plans(const ValidationGrid& grid, const GridSize& size, const std::string& name,
                                const Experiment& experiment, std::vector<std::string>& notes) {
  ValidationCell cell;
  cell.name = name;
  std::vector<std::string> sharing;
  for (const GridSystem& asked : grid.systems) {
    const System& system = asked.system;
    if (!size.systems.empty() && std::ranges::find(size.systems, system.name) == size.systems.end()) continue;
    if (as_run_by(system, experiment)) sharing.push_back(system.name);
    consider(grid, size, asked, experiment, cell, notes);
  }
  if (!sharing.empty())
    notes.push_back(fmt::format("{}: {} share{} tokens over mp here, so that all plans work on the same parts", name,
                                fmt::join(sharing, ", "), sharing.size() == 1 ? "s" : ""));
  return cell;
}

}  // namespace dovetail::bench
