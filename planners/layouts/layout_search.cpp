// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layout_search.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "planners/analytic_evaluator.hpp"
#include "planners/contest.hpp"
#include "planners/layouts/arrangements.hpp"
#include "planners/layouts/least_state.hpp"
#include "planners/layouts/open_axes.hpp"
#include "planners/registry.hpp"
#include "planners/step_prediction.hpp"

namespace dovetail::planners {
namespace {

// All by choice, between time and finds.
constexpr std::size_t most_arranged = 48;  // layouts, the most promising ones, that are arranged in every system's way
constexpr std::size_t most_tried = 400;    // with the best plan of another
constexpr std::size_t most_improved = 6;   // of those, that are improved knob by knob
constexpr long most_layers = 2000;         // predicted of plans that are not the first of their layout
constexpr int most_ready = 6000;           // layers x micro-batches of a step whose order by readiness is tried
constexpr int small_question = 64;         // layers x GPUs: what whole steps can be predicted of as easily as estimated
constexpr std::size_t most_polished = 1;   // of those, by predictions of whole steps
constexpr int most_planned = 128;          // layers x micro-batches of a step that planners look at whole

PlannerChoice all_knobs() {
  return {"dovetail", {1, 2, 3, 4, 6, 8}, false, SearchSpace::Plans};
}

bool faster_than(const LaidOutPlan& a, const LaidOutPlan& b) {
  return a.estimate.time < b.estimate.time;
}

}  // namespace

LayoutSearch::LayoutSearch(LayoutQuestion question) : question_(std::move(question)) {}

bool LayoutSearch::fits(const LaidOutPlan& plan) const {
  return plan.estimate.peak <= question_.limit && plan.peak <= question_.limit;
}

bool LayoutSearch::planned_whole(const LaidOutPlan& plan) const {
  return question_.experiment.workload.layers * plan.plan.micro_batches <= most_planned;
}

bool LayoutSearch::small() const {
  const Experiment& e = question_.experiment;
  return e.workload.layers * e.cluster.gpus() <= small_question;
}

bool LayoutSearch::holds(const Plan& plan) const {
  if (!question_.hold) return true;
  Plan held = plan;
  question_.hold(held);
  return held == plan;
}

bool LayoutSearch::may_be_answer(const Plan& plan) const {
  Plan base;
  if (question_.hold) question_.hold(base);
  return plan.pad_messages == base.pad_messages;
}

std::optional<LaidOutPlan> LayoutSearch::estimated(const Experiment& e, const ParallelLayout& layout, const Plan& plan,
                                                   Detail detail) {
  if (!holds(plan)) return std::nullopt;
  if (const std::optional<InputError> refused = refusal(plan, e)) {
    if (report_.refusal.empty()) report_.refusal = refused->what();
    return std::nullopt;
  }
  try {
    const StageCosts& costs = costs_.of(e, plan);
    const Seconds hop = costs_.hop(e, plan);
    const StepEstimate step =
        detail == Detail::Quick ? quick_estimate(e, plan, costs, hop) : estimate(e, plan, costs, hop, orders_);
    ++report_.estimated;
    return LaidOutPlan{layout, plan, step, {}, {}};
  } catch (const InputError&) {  // a cost is missing
    return std::nullopt;
  }
}

// The plans with the knobs that the user has fixed, and with what goes with these.
std::vector<Plan> LayoutSearch::held(std::vector<Plan> plans, const Experiment& e) {
  if (!question_.hold) return plans;
  std::vector<Plan> with;
  for (Plan& plan : plans) {
    question_.hold(plan);
    std::optional<Plan> legal = nearest_.find(plan, e, [this](const Plan& p) { return holds(p); });
    if (!legal) legal = plan;  // its refusal will be told
    if (std::ranges::count(with, *legal) == 0) with.push_back(*std::move(legal));
  }
  return with;
}

// By the fastest pipeline of those that fit; where none fits, by the one that holds least, or by any where weights
// alone do not fit. Quick estimates say which pipelines are worth a look.
std::optional<LaidOutPlan> LayoutSearch::best_piped(const Experiment& e, const ParallelLayout& layout, const Plan& plan,
                                                    const PlannerChoice& choices) {
  std::vector<LaidOutPlan> ways;
  for (const Plan& way : held(piped(plan, layout, e, choices), e))
    if (std::optional<LaidOutPlan> found = estimated(e, layout, way, Detail::Quick)) {
      if (found->estimate.persistent > question_.limit) return found;
      ways.push_back(*std::move(found));
    }
  std::ranges::stable_sort(ways, faster_than);
  std::optional<LaidOutPlan> best, least;
  for (const LaidOutPlan& way : ways) {
    if (best && best->estimate.time <= way.estimate.time) break;
    std::optional<LaidOutPlan> found = estimated(e, layout, way.plan, Detail::Whole);
    if (!found) continue;
    if (!least || found->estimate.held < least->estimate.held) least = found;
    if (found->estimate.peak <= question_.limit && (!best || faster_than(*found, *best))) best = std::move(found);
  }
  return best ? best : least;
}

// The plan with less and less memory, and more and more recomputed.
std::vector<Plan> LayoutSearch::recomputing(Plan plan) const {
  std::vector<Plan> plans;
  const EnumSet<Recompute> own = plan.recompute & always_recomputed;
  for (const EnumSet<Recompute>& parts : recomputed_parts()) {
    if (plan.restore == Restore::Keep) plan.recompute = parts.has(Recompute::Full) ? parts : parts | own;
    if (question_.hold) question_.hold(plan);
    if (plans.empty() || plan != plans.back()) plans.push_back(plan);
  }
  return plans;
}

// With as little recomputed as fits. Without anything that fits, the plan that holds least, or none where state alone
// is too large. Begins with what the last layout needed, because neighbours are alike.
std::optional<LaidOutPlan> LayoutSearch::fitting(const ParallelLayout& layout, const Plan& plan,
                                                 const PlannerChoice& choices) {
  const Experiment e = with_layout(question_.experiment, layout);
  if (least_state(e, plan.zero) > question_.limit) return std::nullopt;
  const std::vector<Plan> plans = recomputing(plan);
  const auto fits_in = [&](const std::optional<LaidOutPlan>& found) {
    return found && found->estimate.peak <= question_.limit;
  };
  std::size_t at = plans.size() > likely_ ? likely_ : 0;
  std::optional<LaidOutPlan> found = best_piped(e, layout, plans[at], choices);
  if (found && found->estimate.persistent > question_.limit) return found;
  if (fits_in(found)) {
    while (at > 0) {
      std::optional<LaidOutPlan> less = best_piped(e, layout, plans[--at], choices);
      if (less && !fits_in(less)) break;
      if (!less) continue;
      found = std::move(less);
      likely_ = at;
    }
    return found;
  }
  std::optional<LaidOutPlan> least = std::move(found);
  for (at = least ? at + 1 : 0; at < plans.size(); ++at) {
    found = best_piped(e, layout, plans[at], choices);
    if (!found) continue;
    if (plans.size() > 1) likely_ = at;
    if (fits_in(found)) return found;
    if (!least || found->estimate.held < least->estimate.held) least = std::move(found);
  }
  return least;
}

void LayoutSearch::look_at_layouts(const Plan& base) {
  if (!promising_.empty()) return;
  floors_.emplace(LayoutFloors(question_.experiment, base, question_.hold, question_.limit, costs_));
  const std::vector<ParallelLayout> all = layouts(question_.experiment, question_.request);
  report_.layouts = static_cast<long>(all.size());
  std::optional<Parallelism> full;  // groups that a smaller micro-batch has filled already
  const auto groups = [](const Parallelism& p) { return std::tuple(p.pp, p.mp, p.dp, p.ep, p.esp); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ParallelLayout& layout = all[i];
    say("layouts", i, all.size());
    if (full && groups(*full) == groups(layout.groups)) {
      ++report_.too_large;
      continue;
    }
    Bytes least = least_state(with_layout(question_.experiment, layout), base.zero);
    std::optional<LaidOutPlan> found;
    if (least <= question_.limit) {
      found = fitting(layout, base);
      if (!found) continue;
      least = found->estimate.held;
    }
    if (report_.least == Bytes(0) || least < report_.least) report_.least = least;
    if (least > question_.limit) {
      ++report_.too_large;
      full = layout.groups;
      continue;
    }
    floors_->add(layout, found->plan);
    if (fits(*found)) promising_.push_back({layout, found->estimate.time});
  }
  std::ranges::stable_sort(promising_, {}, &Promising::time);
}

// A layout's best arrangement, of all that the systems have. Remembers what each system would do with it.
std::optional<LaidOutPlan> LayoutSearch::arranged(const ParallelLayout& layout, const Plan& base,
                                                  const std::vector<System>& systems) {
  std::optional<LaidOutPlan> best = fitting(layout, base);
  Plan whole = base;
  whole.zero = 0;
  if (std::optional<LaidOutPlan> way = fitting(layout, whole); way && fits(*way)) {
    arranged_.push_back({"", *way});
    if (faster_than(*way, *best)) best = std::move(way);
  }
  arranged_.push_back({"", *best});
  const Experiment e = with_layout(question_.experiment, layout);
  for (const System& system : systems) {
    ParallelLayout own = layout;
    if (const auto as_run = as_run_by(system, e)) own.groups = as_run->parallelism;
    std::optional<LaidOutPlan> of_system;
    for (const Plan& arrangement : arrangements_of(system, e)) {
      if (std::max(arrangement.forward_degree, 1) > 4) continue;
      Plan plan = arranged_as(arrangement, best->plan);
      if (question_.hold) question_.hold(plan);
      std::optional<LaidOutPlan> way = fitting(own, plan, system.planner);
      if (way && fits(*way) && (!of_system || faster_than(*way, *of_system))) of_system = std::move(way);
    }
    if (!of_system) continue;
    arranged_.push_back({system.name, *of_system});
    if (may_be_answer(of_system->plan) && faster_than(*of_system, *best)) best = std::move(of_system);
  }
  return best;
}

std::vector<LaidOutPlan> LayoutSearch::best(const std::vector<System>& systems, std::size_t count) {
  Plan base;
  base.zero = 1;
  if (question_.hold) question_.hold(base);
  look_at_layouts(base);
  std::vector<LaidOutPlan> found;
  const std::size_t most = small() ? promising_.size() : std::min(most_arranged, promising_.size());
  for (std::size_t i = 0; i < most; ++i) {
    say("arrangements", i, most);
    found.push_back(*arranged(promising_[i].layout, base, systems));
  }
  improve_best(found);
  found = predicted_best(std::move(found), count);
  for (std::size_t i = 0; i < std::min(small() ? most_arranged : most_polished, found.size()); ++i) polish(found[i]);
  for (std::size_t i = 0; i < std::min(most_polished, found.size()); ++i)
    let_plan(found[i], all_knobs(), found[i].plan.grad_sync);
  std::ranges::stable_sort(found, {}, &LaidOutPlan::time);
  found.resize(std::min(found.size(), count));
  if (const FlooredLayout* lowest = floors_->lowest()) {
    report_.lowest = lowest->layout;
    report_.floor = lowest->floor;
    report_.bound = lowest->floor.time;
  }
  if (!found.empty()) report_.slower = floors_->slower_than(found[0].time);
  return found;
}

// Improves the most promising plans, tries the best of them on all other layouts, and improves those that have become
// promising by it. Sorts by time.
void LayoutSearch::improve_best(std::vector<LaidOutPlan>& found) {
  std::vector<ParallelLayout> done;
  const auto improve = [&] {
    std::ranges::stable_sort(found, faster_than);
    const std::size_t most = small() ? found.size() : std::min(most_improved, found.size());
    for (std::size_t i = 0; i < most; ++i) {
      if (std::ranges::count(done, found[i].layout) > 0) continue;
      say("knobs", done.size(), std::max(done.size() + 1, 2 * most));
      found[i] = improved(std::move(found[i]), /*pairs=*/false);
      done.push_back(found[i].layout);
    }
    std::ranges::stable_sort(found, faster_than);
  };
  improve();
  const Plan best = found.empty() ? Plan() : found.front().plan;
  for (const Promising& other : std::span(promising_).first(std::min(most_tried, promising_.size()))) {
    if (std::ranges::count(done, other.layout) > 0) continue;
    std::optional<LaidOutPlan> way = fitting(other.layout, best);
    if (!way || !fits(*way)) continue;
    const auto same = std::ranges::find(found, other.layout, &LaidOutPlan::layout);
    if (same == found.end())
      found.push_back(*std::move(way));
    else if (faster_than(*way, *same))
      *same = *std::move(way);
  }
  improve();
  if (found.empty()) return;
  found.front() = improved(std::move(found.front()), /*pairs=*/true);
  std::ranges::stable_sort(found, faster_than);
}

// Predicts the most promising plans, and those of small questions all. Returns the best of each layout.
std::vector<LaidOutPlan> LayoutSearch::predicted_best(std::vector<LaidOutPlan> found, std::size_t count) {
  for (const Arranged& each : arranged_)
    if (may_be_answer(each.plan.plan)) found.push_back(each.plan);
  std::ranges::stable_sort(found, faster_than);
  std::vector<LaidOutPlan> best;
  long layers = 0;
  for (LaidOutPlan& plan : found) {
    const auto same = std::ranges::find(best, plan.layout, &LaidOutPlan::layout);
    say("finalists", static_cast<std::size_t>(std::min(layers, most_layers)), most_layers);
    const bool few = layers < most_layers;
    if (!few && (same != best.end() || best.size() >= count)) continue;
    layers += predict(plan);
    if (plan.peak > question_.limit) continue;
    if (same == best.end())
      best.push_back(std::move(plan));
    else if (plan.time < same->time)
      *same = std::move(plan);
  }
  std::ranges::stable_sort(best, {}, &LaidOutPlan::time);
  return best;
}

// The space of plans with all knobs that the user leaves open, the pipeline apart.
PlanSpace LayoutSearch::open_space(const Experiment& e, const LaidOutPlan& plan) const {
  const auto fixed = [this, pipeline = plan.plan](Plan& changed) {
    copy_knobs(KnobClass::Pipeline, pipeline, changed);
    if (question_.hold) question_.hold(changed);
  };
  return plan_space({e, plan.plan, all_knobs(), {}, fixed, {}});
}

std::optional<Plan> LayoutSearch::with_what_goes_with_it(const Plan& from, const Plan& changed, const Experiment& e) {
  const Keeps keeps = keeps_changes(from, changed);
  return nearest_.find(changed, e, [&](const Plan& plan) { return keeps(plan) && holds(plan); });
}

// A plan with a change, and with what makes it legal, if that is faster. An order by readiness is left out where it
// would take the whole step to predict.
bool LayoutSearch::improve_by(const std::vector<const Setting*>& change, const Experiment& e, LaidOutPlan& best) {
  Plan plan = best.plan;
  for (const Setting* set : change) (*set)(plan);
  if (plan == best.plan || (plan.order == Order::ReadyFirst && plan.micro_batches > 1)) return false;
  const std::optional<Plan> legal = with_what_goes_with_it(best.plan, plan, e);
  if (!legal) return false;
  std::optional<LaidOutPlan> other = estimated(e, best.layout, *legal, Detail::Whole);
  if (!other || !fits(*other) || other->estimate.time >= best.estimate.time * (1 - 1e-6)) return false;
  best = *std::move(other);
  return true;
}

bool LayoutSearch::improve_by_one(const std::vector<Axis>& axes, const Experiment& e, LaidOutPlan& best) {
  bool better = false;
  for (const Axis& axis : axes)
    for (const Setting& set : axis) better |= improve_by({&set}, e, best);
  return better;
}

// Two of those that say what is sent when, on which stream and in how many chunks; they often help only together.
bool LayoutSearch::improve_by_two(const std::vector<Axis>& axes, const Experiment& e, LaidOutPlan& best) {
  bool better = false;
  for (std::size_t second = 1; second < axes.size(); ++second)
    for (std::size_t first = 0; first < second; ++first)
      for (const Setting& set_second : axes[second])
        for (const Setting& set_first : axes[first]) better |= improve_by({&set_first, &set_second}, e, best);
  return better;
}

// Changes knobs as long as that makes the step faster, one after the other, and with `pairs` two together at the end.
LaidOutPlan LayoutSearch::improved(LaidOutPlan best, bool pairs) try {
  const Experiment e = with_layout(question_.experiment, best.layout);
  std::vector<Axis> axes = axes_of(open_space(e, best));
  axes.push_back(pipeline_axis(piped(best.plan, best.layout, e, {})));
  do {
    while (improve_by_one(axes, e, best)) {
    }
  } while (pairs && improve_by_two(chunk_axes_of(open_space(e, best)), e, best));
  return best;
} catch (const InputError&) {  // the user's settings leave nothing open
  return best;
}

// The estimate does not know when exactly gradients and weights meet other traffic, nor an order by readiness, so these
// are tried in whole steps; in small questions every knob is.
void LayoutSearch::polish(LaidOutPlan& best) try {
  const Experiment e = with_layout(question_.experiment, best.layout);
  const std::vector<Axis> axes = axes_of(open_space(e, best));
  constexpr std::size_t in_steps = 3;  // the last ones: see axes_of()
  const bool few = question_.experiment.workload.layers * best.plan.micro_batches <= most_ready;
  constexpr double promising = 1.02;  // times the estimate of the best
  for (bool better = true; better;) {
    better = false;
    for (std::size_t i = small() ? 0 : axes.size() - in_steps; i < axes.size(); ++i)
      for (const Setting& set : axes[i]) {
        Plan plan = best.plan;
        set(plan);
        if (plan == best.plan || (plan.order == Order::ReadyFirst && !few)) continue;
        std::optional<LaidOutPlan> other = estimated(e, best.layout, plan, Detail::Whole);
        if (!other || (!small() && other->estimate.time > best.estimate.time * promising)) continue;
        predict(*other);
        if (other->time >= best.time * (1 - 1e-9) || other->peak > question_.limit) continue;
        best = *std::move(other);
        better = small();
      }
  }
} catch (const InputError&) {  // the user's settings leave nothing open
}

// A planner sees the whole step where it has few micro-batches: there slices of gradients and closed forms matter.
void LayoutSearch::let_plan(LaidOutPlan& best, const PlannerChoice& choice, GradSync sync) try {
  const Experiment e = with_layout(question_.experiment, best.layout);
  if (choice.name == "fixed" || !planned_whole(best)) return;
  const auto fixed = [this, pipeline = best.plan](Plan& plan) {
    copy_knobs(KnobClass::Pipeline, pipeline, plan);
    if (question_.hold) question_.hold(plan);
  };
  PlanningTask task{e, best.plan, choice, {best.plan}, fixed, {}};
  task.base.grad_sync = sync;
  const Plan plan = find_planner(choice.name).choose(task, analytic_evaluator(e)).plan;
  if (plan == best.plan || !allowed(task, plan)) return;
  std::optional<LaidOutPlan> planned = estimated(e, best.layout, plan, Detail::Whole);
  if (!planned) return;
  predict(*planned);
  if (planned->time < best.time && planned->peak <= question_.limit) best = *std::move(planned);
} catch (const InputError&) {  // it cannot plan this
}

// The system on a layout, with each of its degrees, with and without ZeRO; estimated.
std::vector<LaidOutPlan> LayoutSearch::ways_of(const System& system, const ParallelLayout& asked) {
  ParallelLayout layout = asked;
  if (const auto own = as_run_by(system, with_layout(question_.experiment, layout))) layout.groups = own->parallelism;
  std::vector<LaidOutPlan> ways;
  for (const Plan& arrangement : arrangements_of(system, with_layout(question_.experiment, layout)))
    for (const int zero : {arrangement.zero, 1}) {
      Plan plan = arrangement;
      plan.zero = zero;
      if (question_.hold) question_.hold(plan);
      if (std::optional<LaidOutPlan> way = fitting(layout, plan, system.planner)) ways.push_back(*std::move(way));
      if (zero == 1) break;
    }
  return ways;
}

std::optional<LaidOutPlan> LayoutSearch::best_of(const System& system, const ParallelLayout& layout) {
  std::vector<LaidOutPlan> ways = ways_of(system, layout);
  std::erase_if(ways, [&](const LaidOutPlan& way) { return !fits(way); });
  std::ranges::stable_sort(ways, faster_than);
  std::optional<LaidOutPlan> best;
  std::set<int> seen;  // whether a system gains by ZeRO shows when its planner has planned with and without
  for (LaidOutPlan& way : ways) {
    if (!seen.insert(planned_whole(way) ? way.plan.zero : 0).second) continue;
    predict(way);
    let_plan(way, system.planner, system.plan.grad_sync);
    if (fits(way) && (!best || way.time < best->time)) best = std::move(way);
  }
  return best;
}

std::optional<LaidOutPlan> LayoutSearch::best_of(const System& system) {
  std::vector<LaidOutPlan> ways;
  for (const Arranged& each : arranged_)
    if (each.system == system.name) ways.push_back(each.plan);
  if (ways.empty() && !promising_.empty()) {
    const Experiment e = with_layout(question_.experiment, promising_.front().layout);
    Plan plan = without_choices(plan_on(system, e));
    plan.micro_batches = promising_.front().layout.micro_batches;
    if (const std::optional<InputError> refused = refusal(plan, e)) throw InputError(*refused);
  }
  std::ranges::stable_sort(ways, faster_than);
  constexpr std::size_t tries = 3;  // what is estimated to fit may not
  for (std::size_t i = 0; i < std::min(tries, ways.size()); ++i)
    if (std::optional<LaidOutPlan> best = best_of(system, ways[i].layout)) return best;
  return std::nullopt;
}

std::vector<double> LayoutSearch::ratios(const std::vector<LaidOutPlan>& plans, const Shared<Calibration>& costs) {
  StageCostTable other;
  std::vector<double> result;
  for (const LaidOutPlan& plan : plans) {
    Experiment e = with_layout(question_.experiment, plan.layout);
    e.calibration = costs;
    result.push_back(estimate(e, plan.plan, other.of(e, plan.plan), other.hop(e, plan.plan), orders_).time /
                     plan.estimate.time);
  }
  return result;
}

// Returns the layers that were built for it, once for each micro-batch.
long LayoutSearch::predict(LaidOutPlan& plan) {
  const auto known = std::ranges::find_if(
      predicted_, [&](const LaidOutPlan& p) { return p.layout == plan.layout && p.plan == plan.plan; });
  if (known != predicted_.end()) {
    plan = *known;
    return 0;
  }
  const StepPrediction step(with_layout(question_.experiment, plan.layout), plan.plan);
  plan.time = step.time();
  plan.stage_peaks = step.stage_peaks();
  plan.peak = std::ranges::max(plan.stage_peaks);
  plan.metrics = step.metrics();
  predicted_.push_back(plan);
  ++report_.predicted;
  return static_cast<long>(question_.experiment.workload.layers) * step.built();
}

}  // namespace dovetail::planners
