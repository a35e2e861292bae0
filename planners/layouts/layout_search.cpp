// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layout_search.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "planners/layouts/arrangements.hpp"
#include "planners/limits.hpp"
#include "planners/steps/least_state.hpp"
#include "planners/steps/refusal.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

bool in_pairs(const LaidOutPlan& plan) {
  return plan.plan.scope == Scope::Batch;
}

}  // namespace

LayoutSearch::LayoutSearch(LayoutQuestion question) : plans_(std::move(question)) {}

void LayoutSearch::look_at_layouts(const std::vector<ParallelLayout>& all) {
  if (!promising_.empty()) return;
  const LayoutQuestion& asked = plans_.question();
  floors_.emplace(LayoutFloors(asked.experiment, base_, asked.hold, asked.limit, asked.steps->stage_costs()));
  std::optional<Parallelism> full;  // groups that a smaller micro-batch has filled already
  const auto groups = [](const Parallelism& p) { return std::tuple(p.pp, p.mp, p.dp, p.ep, p.esp); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ParallelLayout& layout = all[i];
    say("layouts", i, all.size());
    if (full && groups(*full) == groups(layout.groups)) {
      ++report_.too_large;
      continue;
    }
    Bytes least = least_state(plans_.laid_out(layout), base_.zero);
    std::optional<LaidOutPlan> found;
    if (least <= asked.limit) {
      found = plans_.fitting(layout, base_);
      if (!found) continue;
      least = found->estimate.held;
    }
    if (report_.least == Bytes(0) || least < report_.least) report_.least = least;
    if (least > asked.limit) {
      ++report_.too_large;
      full = layout.groups;
      continue;
    }
    floors_->add(layout, found->plan);
    if (plans_.fits(*found)) promising_.push_back({layout, found->estimate.time});
  }
  std::ranges::stable_sort(promising_, {}, &Promising::time);
}

// A layout's best arrangement, of all that the systems and other plans have, and its best one in pairs, if it has any:
// what is best with pairs is far from what is best without them. Remembers what each system would do with it.
std::vector<LaidOutPlan> LayoutSearch::arranged(const ParallelLayout& layout, const SearchStart& start) {
  std::optional<LaidOutPlan> best = plans_.fitting(layout, base_), paired;
  const auto answer = [&](const LaidOutPlan& way) {
    if (!may_be_answer(way.plan)) return;
    std::optional<LaidOutPlan>& rival = in_pairs(way) && !in_pairs(*best) ? paired : best;
    if (!rival || faster_by_estimate(way, *rival)) rival = way;
  };
  const auto compete = [&](const Plan& plan) {
    std::optional<LaidOutPlan> way = plans_.fitting(layout, plan);
    if (!way || !plans_.fits(*way)) return;
    arranged_.push_back({"", *way});
    answer(*way);
  };
  Plan whole = base_;
  whole.zero = 0;
  compete(whole);
  arranged_.push_back({"", *best});
  for (const Plan& plan : start.plans) compete(arranged_as(plan, best->plan));
  const Experiment e = plans_.laid_out(layout);
  for (const System& system : start.systems) {
    ParallelLayout own = layout;
    if (const auto as_run = as_run_by(system, e)) own.groups = as_run->parallelism;
    std::optional<LaidOutPlan> of_system;
    for (const Plan& arrangement : arrangements_of(system, e)) {
      if (arrangement.forward_degree > limits::arranged_degree) continue;
      const Plan plan = plans_.held(arranged_as(arrangement, best->plan));
      std::optional<LaidOutPlan> way = plans_.fitting(own, plan, system.planner);
      if (way && plans_.fits(*way) && (!of_system || faster_by_estimate(*way, *of_system))) of_system = std::move(way);
    }
    if (!of_system) continue;
    arranged_.push_back({system.name, *of_system});
    answer(*of_system);
  }
  std::vector<LaidOutPlan> found{*std::move(best)};
  if (paired) found.push_back(*std::move(paired));
  return found;
}

std::vector<LaidOutPlan> LayoutSearch::best(const SearchStart& start, std::size_t count) {
  const LayoutQuestion& asked = plans_.question();
  const PlanLimits its(asked.hold, asked.as_run);
  const std::vector<ParallelLayout> all =
      asked.only.empty() ? its.layouts(asked.experiment, asked.request) : asked.only;
  report_.layouts = static_cast<long>(all.size());
  const std::optional<Plan> first = its.first_plan(asked.experiment, all, start.systems);
  if (!first) return {};
  base_ = plans_.held(*first);
  look_at_layouts(all);
  std::vector<LaidOutPlan> found;
  const std::size_t most = at_most(limits::arranged, promising_.size());
  for (std::size_t i = 0; i < most; ++i) {
    say("arrangements", i, most);
    std::ranges::move(arranged(promising_[i].layout, start), std::back_inserter(found));
  }
  improve_best(found);
  found = predicted_best(std::move(found), count);
  for (std::size_t i = 0; i < std::min(plans_.small() ? limits::arranged : limits::polished, found.size()); ++i)
    climb_.polish(found[i]);
  std::ranges::stable_sort(found, {}, &LaidOutPlan::time);
  if (!found.empty()) plan_whole(found.front());
  found.resize(std::min(found.size(), count));
  if (!found.empty()) best_time_ = found[0].time;
  return found;
}

LayoutSearchReport LayoutSearch::report() {
  const StepModel& steps = *plans_.question().steps;
  report_.estimated = steps.estimated();
  report_.looked_at = steps.looked_at();
  report_.predicted = steps.predicted();
  report_.refusal = steps.first_refusal();
  if (const FlooredLayout* lowest = floors_ ? floors_->lowest() : nullptr) {
    report_.lowest = lowest->layout;
    report_.floor = lowest->floor;
    report_.bound = lowest->floor.time;
    if (best_time_) report_.slower = floors_->slower_than(*best_time_);
  }
  return report_;
}

// So many, and all of a small question.
std::size_t LayoutSearch::at_most(std::size_t limit, std::size_t all) const {
  return plans_.small() ? all : std::min(limit, all);
}

// Short steps are planned whole as well: slices of gradients and closed forms matter there.
void LayoutSearch::plan_whole(LaidOutPlan& best) {
  const Seconds before = best.time;
  let_plan(best, {"dovetail", limits::degrees(), false, SearchSpace::Plans}, best.plan.grad_sync);
  if (best.time < before) climb_.polish(best);
}

// Improves the most promising plans, tries the best of them on all other layouts, and improves those that have become
// promising by it. Sorts by time.
void LayoutSearch::improve_best(std::vector<LaidOutPlan>& found) {
  std::vector<std::pair<ParallelLayout, bool>> done;  // with pairs or without
  const auto kind = [](const LaidOutPlan& plan) { return std::pair(plan.layout, in_pairs(plan)); };
  const auto improve = [&] {
    std::ranges::stable_sort(found, faster_by_estimate);
    std::array<std::size_t, 2> left{at_most(limits::improved, found.size()),
                                    at_most(limits::improved_pairs, found.size())};
    const std::size_t most = left[0] + left[1];
    for (LaidOutPlan& plan : found) {
      const auto its = kind(plan);
      if (left.at(its.second ? 1 : 0) == 0) continue;
      --left.at(its.second ? 1 : 0);
      if (std::ranges::count(done, its) > 0) continue;
      say("knobs", done.size(), std::max(done.size() + 1, 2 * most));
      plan = climb_.improved(std::move(plan), /*pairs=*/false);
      done.push_back(its);
    }
    std::ranges::stable_sort(found, faster_by_estimate);
  };
  improve();
  std::vector<Plan> bests;  // without pairs and with them
  for (const bool pairs : {false, true})
    if (const auto first = std::ranges::find(found, pairs, in_pairs); first != found.end())
      bests.push_back(first->plan);
  for (const Promising& other : std::span(promising_).first(std::min(limits::tried, promising_.size())))
    for (const Plan& best : bests) {
      if (std::ranges::count(done, std::pair(other.layout, best.scope == Scope::Batch)) > 0) continue;
      std::optional<LaidOutPlan> way = plans_.fitting(other.layout, best);
      if (!way || !plans_.fits(*way)) continue;
      const auto same = std::ranges::find(found, kind(*way), kind);
      if (same == found.end())
        found.push_back(*std::move(way));
      else if (faster_by_estimate(*way, *same))
        *same = *std::move(way);
    }
  improve();
  for (const bool pairs : {false, true})
    if (const auto first = std::ranges::find(found, pairs, in_pairs); first != found.end())
      *first = climb_.improved(std::move(*first), /*pairs=*/true);
  std::ranges::stable_sort(found, faster_by_estimate);
}

// Predicts the most promising plans, and those of small questions all. Returns the best of each layout.
std::vector<LaidOutPlan> LayoutSearch::predicted_best(std::vector<LaidOutPlan> found, std::size_t count) {
  for (const Arranged& each : arranged_)
    if (may_be_answer(each.plan.plan)) found.push_back(each.plan);
  std::ranges::stable_sort(found, faster_by_estimate);
  std::vector<LaidOutPlan> best;
  long layers = 0;
  for (LaidOutPlan& plan : found) {
    const auto same = std::ranges::find(best, plan.layout, &LaidOutPlan::layout);
    say("finalists", static_cast<std::size_t>(std::min(layers, limits::finalists_layers)), limits::finalists_layers);
    const bool few = layers < limits::finalists_layers;
    if (!few && (same != best.end() || best.size() >= count)) continue;
    layers += plans_.predict(plan);
    if (!plans_.fits(plan)) continue;
    if (same == best.end())
      best.push_back(std::move(plan));
    else if (plan.time < same->time)
      *same = std::move(plan);
  }
  std::ranges::stable_sort(best, {}, &LaidOutPlan::time);
  return best;
}

// Lets a planner improve the step, where it is short enough to be looked at whole.
void LayoutSearch::let_plan(LaidOutPlan& best, const PlannerChoice& choice, GradSync sync) {
  const LayoutQuestion& asked = plans_.question();
  if (asked.find_planner == nullptr || choice.name == "fixed" || !plans_.is_short(best)) return;
  const Experiment e = plans_.laid_out(best.layout);
  const auto fixed = [&, pipeline = best.plan](Plan& plan) {
    copy_knobs(KnobClass::Pipeline, pipeline, plan);
    PlanLimits(asked.hold, asked.as_run).hold(plan, e);
  };
  PlanningTask task{e, best.plan, choice, {best.plan}, fixed, {}, asked.steps};
  task.base.grad_sync = sync;
  const std::optional<Plan> plan =
      if_answered([&] { return asked.find_planner(choice.name).choose(task, task_evaluator(task)).plan; });
  if (!plan || *plan == best.plan || !allowed(task, *plan)) return;
  if (std::optional<LaidOutPlan> planned = plans_.estimated(e, best.layout, *plan))
    plans_.take_if_faster(*std::move(planned), best);
}

// The system on a layout, with each of its degrees, with and without ZeRO; estimated.
std::vector<LaidOutPlan> LayoutSearch::ways_of(const System& system, const ParallelLayout& asked) {
  ParallelLayout layout = asked;
  if (const auto own = as_run_by(system, plans_.laid_out(layout))) layout.groups = own->parallelism;
  std::vector<LaidOutPlan> ways;
  for (const Plan& arrangement : arrangements_of(system, plans_.laid_out(layout)))
    for (const int zero : {arrangement.zero, 1}) {
      Plan plan = arrangement;
      plan.zero = zero;
      plan = plans_.held(std::move(plan));
      if (std::optional<LaidOutPlan> way = plans_.fitting(layout, plan, system.planner))
        ways.push_back(*std::move(way));
      if (zero == 1) break;
    }
  return ways;
}

std::optional<LaidOutPlan> LayoutSearch::best_of(const System& system, const ParallelLayout& layout) {
  std::vector<LaidOutPlan> ways = ways_of(system, layout);
  std::erase_if(ways, [&](const LaidOutPlan& way) { return !plans_.fits(way); });
  std::ranges::stable_sort(ways, faster_by_estimate);
  std::optional<LaidOutPlan> best;
  std::set<int> seen;  // whether a system gains by ZeRO shows when its planner has planned with and without
  for (LaidOutPlan& way : ways) {
    if (!seen.insert(plans_.is_short(way) ? way.plan.zero : 0).second) continue;
    plans_.predict(way);
    let_plan(way, system.planner, system.plan.grad_sync);
    if (plans_.fits(way) && (!best || way.time < best->time)) best = std::move(way);
  }
  return best;
}

std::optional<LaidOutPlan> LayoutSearch::best_of(const System& system) {
  std::vector<LaidOutPlan> ways;
  for (const Arranged& each : arranged_)
    if (each.system == system.name) ways.push_back(each.plan);
  if (ways.empty() && !promising_.empty()) {
    const Experiment e = plans_.laid_out(promising_.front().layout);
    Plan plan = without_choices(plan_on(system, e));
    plan.micro_batches = promising_.front().layout.micro_batches;
    if (const std::optional<InputError> refused = refusal(plan, e)) throw InputError(*refused);
    system.planner.require(plan, e);
  }
  std::ranges::stable_sort(ways, faster_by_estimate);
  for (std::size_t i = 0; i < std::min(limits::systems_tries, ways.size()); ++i)
    if (std::optional<LaidOutPlan> best = best_of(system, ways[i].layout)) return best;
  return std::nullopt;
}

}  // namespace dovetail::planners
