// SPDX-License-Identifier: Apache-2.0
#include "planners/task/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planners/task/analytic_evaluator.hpp"

namespace dovetail::planners {
namespace {

// Times closer than this differ by rounding only.
constexpr double rounding = 1e-12;

// So many plans are evaluated where steps are estimated; by choice.
constexpr std::size_t most_promising = 6;

}  // namespace

std::optional<Seconds> Contest::estimate_of(const Plan& plan) const {
  const std::optional<StepEstimate> estimate = task_ != nullptr ? task_->estimate(plan) : std::nullopt;
  return estimate ? std::optional(estimate->time) : std::nullopt;
}

void Contest::propose(const Plan& plan, std::optional<Seconds> estimate) {
  const std::optional<Seconds> of_best = empty() || best_time() >= no_time ? std::nullopt : entries_[best_].estimate;
  if (estimate && of_best && (*estimate > *of_best * clearly_slower || by_estimate_ >= most_promising)) {
    ++left_out_;
    return;
  }
  const std::size_t before = entries_.size();
  time_of(plan);
  if (entries_.size() == before || !estimate) return;
  entries_.back().estimate = estimate;
  ++by_estimate_;
}

void Contest::propose(const Plan& plan) {
  propose(plan, estimate_of(plan));
}

void Contest::propose(const std::vector<Plan>& plans) {
  std::vector<std::pair<Seconds, const Plan*>> promising;
  for (const Plan& plan : plans) promising.emplace_back(estimate_of(plan).value_or(Seconds(0)), &plan);
  std::ranges::stable_sort(promising, {}, &std::pair<Seconds, const Plan*>::first);
  for (const auto& [estimate, plan] : promising)
    propose(*plan, estimate > Seconds(0) ? std::optional(estimate) : std::nullopt);
}

Seconds Contest::time_of(const Plan& plan) {
  if (const auto seen = std::ranges::find(entries_, plan, &Entry::plan); seen != entries_.end()) return seen->time;
  entries_.push_back({plan, evaluate_(plan)});
  if (entries_.back().time < entries_[best_].time * (1 - rounding)) best_ = entries_.size() - 1;
  return entries_.back().time;
}

std::size_t Contest::timed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const Entry& entry) { return entry.time < no_time; }));
}

const Plan& Contest::best() const {
  check(!entries_.empty(), "a planner proposed no plan");
  return entries_[best_].plan;
}

Seconds Contest::best_time() const {
  check(!entries_.empty(), "a planner proposed no plan");
  return entries_[best_].time;
}

PlanChoice Contest::finish(std::string_view planner, std::string reason, const Describe& describe) const {
  PlanChoice choice{best(), {}};
  PlannerReport& report = choice.report;
  report.name = planner;
  report.reason = std::move(reason);
  if (left_out_ > 0) report.reason += fmt::format("; {} less promising by estimate were left out", left_out_);
  report.evaluations = static_cast<long>(entries_.size());
  const auto name = [&](const Plan& plan) { return describe ? describe(plan) : "degree " + describe_degrees(plan); };
  const Entry* second = nullptr;
  for (const Entry& entry : entries_)
    if (&entry != &entries_[best_] && entry.time < no_time && (second == nullptr || entry.time < second->time))
      second = &entry;
  if (second != nullptr) {
    const double slower = 100 * (second->time / best_time() - 1);
    report.runner_up = fmt::format("{}{}, {}", name(second->plan),
                                   name(second->plan) == name(best()) ? " with other gradient slices" : "",
                                   slower < .01 ? "as fast" : fmt::format("{:.2g} % slower", slower));
  }
  report.time = Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count());
  return choice;
}

Plan without_choices(Plan plan) {
  plan.gradient_slices.clear();
  plan.backward_degrees.clear();
  if (plan.grad_sync == GradSync::Partitioned) plan.grad_sync = GradSync::After;
  return plan;
}

std::string describe_degrees(const Plan& plan) {
  if (plan.backward_degrees.empty()) return fmt::format("{} / {}", plan.forward_degree, plan.backward_degree);
  const auto [low, high] = std::ranges::minmax(plan.backward_degrees);
  return fmt::format("{} / {}-{}", plan.forward_degree, low, high);
}

bool fits(const Plan& plan, const Experiment& e) {
  return !refusal(plan, e) && peak_memory(e, plan) <= e.cluster.device.memory;
}

bool fits(const Plan& plan, const PlanningTask& task) {
  const Experiment& e = task.experiment;
  return !refusal(plan, e) && task.steps->peak(e, plan) <= e.cluster.device.memory;
}

bool holds(const PlanningTask& task, const Plan& plan) {
  if (!task.hold) return true;
  Plan held = plan;
  task.hold(held);
  return held == plan;
}

bool allowed(const PlanningTask& task, const Plan& plan) {
  return holds(task, plan) && !refusal(plan, task.experiment);
}

Plan simplest(const PlanningTask& task) {
  Plan plan = without_choices(task.base);
  plan.forward_degree = plan.backward_degree = allowed_degrees(task).front();
  return plan;
}

std::vector<int> allowed_degrees(const PlanningTask& task) {
  std::vector<int> degrees = task.choices.degrees;
  std::ranges::sort(degrees);
  const auto repeated = std::ranges::unique(degrees);
  degrees.erase(repeated.begin(), repeated.end());
  if (degrees.empty()) throw InputError("planner.degrees is empty; expected at least one candidate");
  Plan plan = without_choices(task.base);
  std::optional<InputError> first;
  std::erase_if(degrees, [&](int degree) {
    plan.forward_degree = plan.backward_degree = degree;
    const std::optional<InputError> refused = refusal(plan, task.experiment);
    if (!first) first = refused;
    return refused.has_value();
  });
  if (degrees.empty()) throw *first;
  return degrees;
}

}  // namespace dovetail::planners
