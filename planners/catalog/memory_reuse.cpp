// SPDX-License-Identifier: Apache-2.0
// How what the backward pass needs comes back (MPipeMoE eq. 10), and the degree with it: the fastest plan that fits the
// device's memory. The closed form picks a strategy; the evaluator, which sees what overlaps, has the last word.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/base/names.hpp"
#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/overlap.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "planners/closed_form/restore_cost.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

std::string_view name_of(Restore restore) {
  return name_in(restore_names, restore);
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.4g} GiB", bytes.value() / (1 << 30));
}

std::string describe_restore(const Plan& plan) {
  return fmt::format("{} at degree {}", name_of(plan.restore), describe_degrees(plan));
}

// If the base plan restores, keeping is no candidate. Kept tensors are not overwritten, so keeping has no rings, while
// strategies without rings would save little.
std::vector<Plan> restored(const PlanningTask& task) {
  if (task.experiment.workload.phases == Phases::ForwardOnly) return {task.base};
  std::vector<Plan> plans;
  for (const auto& [name, restore] : restore_names) {
    if (restore == Restore::Keep && task.base.restore != Restore::Keep) continue;
    if ((offloads_input(restore) || offloads_hidden(restore)) && !task.experiment.calibration->copy) continue;
    Plan& plan = plans.emplace_back(task.base);
    plan.restore = restore;
    if (restore == Restore::Keep)
      plan.buffers = Buffers::PerChunk;
    else if (task.base.buffers == Buffers::PerChunk)
      plan.buffers = Buffers::Double;
  }
  return plans;
}

struct Candidate {
  Plan plan;
  Bytes peak;
};

// With peaks by estimate where steps are estimated.
std::vector<Candidate> candidates(const PlanningTask& task) {
  std::vector<Candidate> all;
  for (const Plan& base : restored(task))
    for (Plan& plan : degree_plans(task, base)) {
      const std::optional<StepEstimate> step = task.estimate(plan);
      const Bytes peak = step ? step->peak : task.steps->peak(task.experiment, plan);
      all.push_back({std::move(plan), peak});
    }
  return all;
}

std::vector<Plan> plans_of(const std::vector<Candidate>& candidates) {
  std::vector<Plan> plans;
  for (const Candidate& c : candidates) plans.push_back(c.plan);
  return plans;
}

// Whether the plan fits another experiment than the task's; by estimate where the task has estimates.
bool would_fit(const PlanningTask& task, const Experiment& e, const Plan& plan) {
  if (!task.by_estimate) return fits(plan, e);
  const std::optional<StepEstimate> step = StepModel().estimate(e, plan);
  return step ? step->peak <= e.cluster.device.memory : fits(plan, e);
}

// Says what would make a plan fit that does not: more chunks, else fewer tokens.
std::string remedy(const PlanningTask& task, Plan plan) {
  constexpr std::int64_t most_chunks = 256;  // more would take minutes to look at, and their latencies would decide
  Experiment e = task.experiment;
  const std::int64_t rows = std::min(most_chunks, layer_volumes(e, plan).capacity);
  plan.backward_degrees.clear();
  for (Plan more = plan; more.forward_degree <= rows / 2;) {
    more.forward_degree = more.backward_degree = 2 * more.forward_degree;
    if (would_fit(task, e, more)) return fmt::format("degree {} would fit", more.forward_degree);
  }
  Workload& w = e.workload;
  while (w.batch > 1 || w.sequence > 1) {
    (w.batch > 1 ? w.batch : w.sequence) /= 2;
    const auto resized = refusal_of([&] {
      resolve_capacity(e);
      validate(e);
    });
    if (resized) break;
    const auto most = static_cast<int>(layer_volumes(e, plan).capacity);
    plan.forward_degree = std::min(plan.forward_degree, most);
    plan.backward_degree = std::min(plan.backward_degree, most);
    if (would_fit(task, e, plan)) return fmt::format("batch {} with sequence {} would fit", w.batch, w.sequence);
  }
  return fmt::format("neither up to {} chunks nor fewer tokens would make it fit", most_chunks);
}

std::string describe_missing(const PlanningTask& task, const Candidate& nearest) {
  const Device& device = task.experiment.cluster.device;
  const Bytes missing = nearest.peak - device.memory;
  return fmt::format("no plan fits the {} of a {}: {} takes least and misses {} ({:.0f} bytes); {}", gib(device.memory),
                     device.name, describe_restore(nearest.plan), gib(missing), missing.value(),
                     remedy(task, nearest.plan));
}

Seconds cost_of(const PlanningTask& task, const Plan& plan) {
  const std::vector<Interference> all = interference_of(task.experiment, plan.all_to_all, plan.comm_sms);
  const Protocol messages = plan.protocol == Protocol::LowLatency ? Protocol::LowLatency : Protocol::Simple;
  return restore_cost(price_plan(task.experiment, plan), of_all_to_alls(all, messages));
}

// Says which strategy equation 10 picks among those that fit at the chosen degrees.
std::string describe_paper(const PlanningTask& task, const Plan& best, const std::vector<Candidate>& fitting) {
  const Candidate* pick = nullptr;
  Seconds least;
  std::string costs;
  for (const Candidate& c : fitting) {
    Plan same = c.plan;
    same.restore = best.restore;
    same.buffers = best.buffers;
    if (same != best) continue;
    const Seconds cost = cost_of(task, c.plan);
    costs += fmt::format("{}{} {:.4g}", costs.empty() ? "" : ", ", name_of(c.plan.restore), 1e3 * cost.value());
    if (pick == nullptr || cost < least) {
      pick = &c;
      least = cost;
    }
  }
  return fmt::format("equation 10 picks {}{} ({} ms)", name_of(pick->plan.restore),
                     pick->plan.restore == best.restore ? " too" : "", costs);
}

// As MPipeMoE itself: the degree by search among plans that keep what they need, then the strategy of least cost by
// equation 10 at that degree. The evaluator tells what that costs against the best of all.
class Equation10 final : public Planner {
 public:
  std::string_view name() const override { return "equation_10"; }
  std::vector<Plan> bases(const PlanningTask& task) const override { return restored(task); }
  std::string_view chooses() const override { return "what is kept, sent or computed again"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    PlanningTask keeping = task;
    keeping.base.restore = Restore::Keep;
    keeping.base.buffers = Buffers::PerChunk;
    Contest degrees(task, evaluate);
    degrees.propose(degree_plans(keeping, keeping.base));
    Contest contest(task, evaluate);
    std::vector<Plan> picked;
    std::string costs;
    if (!degrees.empty())
      for (const Plan& base : bases(task)) {
        Plan plan = base;
        plan.forward_degree = degrees.best().forward_degree;
        plan.backward_degree = degrees.best().backward_degree;
        if (base.restore == Restore::Keep || !allowed(task, plan)) continue;
        contest.propose(plan);
        picked.push_back(plan);
        costs += fmt::format("{}{} {:.4g} ms", costs.empty() ? "" : ", ", name_of(plan.restore),
                             1e3 * cost_of(task, plan).value());
      }
    if (picked.empty()) {
      contest.propose(simplest(task));
      return contest.finish(name(), "nothing to restore", describe_restore);
    }
    PlanChoice choice = contest.finish(name(), "least cost by equation 10: " + costs, describe_restore);
    choice.plan = *std::ranges::min_element(picked, {}, [&](const Plan& plan) { return cost_of(task, plan); });
    choice.report.runner_up.reset();  // which would be by the evaluator
    choice.report.regret = contest.time_of(choice.plan) / contest.best_time() - 1;
    return choice;
  }
};

class MemoryReuse final : public Planner {
 public:
  std::string_view name() const override { return "memory_reuse"; }
  std::vector<Plan> bases(const PlanningTask& task) const override { return restored(task); }
  std::string_view chooses() const override { return "what is kept, sent or computed again"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    std::vector<Candidate> all = candidates(task);
    if (all.empty()) all.push_back({simplest(task), task.steps->peak(task.experiment, simplest(task))});
    Candidate nearest = *std::ranges::min_element(all, {}, &Candidate::peak);
    const auto proposed = all.size();
    const Bytes limit = task.experiment.cluster.device.memory;
    for (std::erase_if(all, [&](const Candidate& c) { return c.peak > limit; }); !all.empty();) {
      Contest contest(task, evaluate);
      contest.propose(plans_of(all));
      const Plan& best = contest.best();
      if (task.steps->peak(task.experiment, best) > limit) {  // which its estimate did not know
        std::erase_if(all, [&](const Candidate& c) { return c.plan == best; });
        continue;
      }
      std::string reason = fmt::format("{}, the fastest of {} plans that fit {} ({} do not)", describe_restore(best),
                                       all.size(), gib(limit), proposed - all.size());
      if (task.experiment.workload.phases == Phases::Training) reason += "; there " + describe_paper(task, best, all);
      return contest.finish(name(), std::move(reason), describe_restore);
    }
    nearest.peak = task.steps->peak(task.experiment, nearest.plan);
    Contest contest(evaluate);
    contest.propose(nearest.plan);
    return contest.finish(name(), describe_missing(task, nearest), describe_restore);
  }
};

}  // namespace

const Planner& memory_reuse() {
  static const MemoryReuse planner;
  return planner;
}

const Planner& equation_10() {
  static const Equation10 planner;
  return planner;
}

}  // namespace dovetail::planners
