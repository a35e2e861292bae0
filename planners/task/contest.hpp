// SPDX-License-Identifier: Apache-2.0
// Keeps the fastest of the plans that a planner proposes, and what its report says of the others.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planners/steps/refusal.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::planners {

// An evaluator gives at least this to a plan that cannot stand beside the others, such as one that does not fit.
inline constexpr Seconds no_time(1e9);

class Contest {
 public:
  // Evaluates all plans.
  explicit Contest(const Evaluator& evaluate) : evaluate_(evaluate) {}
  // Looks at the most promising plans alone where the task has estimates, and says so.
  Contest(const PlanningTask& task, const Evaluator& evaluate) : evaluate_(evaluate), task_(&task) {}

  // Evaluates a plan not seen before. The first of equally fast plans stays ahead, so propose small degrees first.
  void propose(const Plan& plan);
  // The same for several, where steps are estimated the most promising first.
  void propose(const std::vector<Plan>& plans);
  Seconds time_of(const Plan& plan);  // evaluates it in any case

  bool empty() const { return entries_.empty(); }
  std::size_t left_out() const { return left_out_; }  // by estimate
  std::size_t timed() const;                          // plans that have a time
  const Plan& best() const;
  Seconds best_time() const;
  // `describe` says what is chosen in a plan, for the runner-up; by default "degree 4 / 8".
  using Describe = std::function<std::string(const Plan&)>;
  PlanChoice finish(std::string_view planner, std::string reason, const Describe& describe = {}) const;

 private:
  struct Entry {
    Plan plan;
    Seconds time;
    std::optional<Seconds> estimate = {};
  };
  std::optional<Seconds> estimate_of(const Plan& plan) const;
  void propose(const Plan& plan, std::optional<Seconds> estimate);

  const Evaluator& evaluate_;
  const PlanningTask* task_ = nullptr;
  std::size_t left_out_ = 0, by_estimate_ = 0;  // plans not evaluated, and evaluated ones that have an estimate
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Entry> entries_;
  std::size_t best_ = 0;
};

// The plan without what is still to be chosen: backward degrees of each layer, gradient slices.
Plan without_choices(Plan plan);

// "4 / 8" (forward / backward), "4 / 2-8" where layers differ.
std::string describe_degrees(const Plan& plan);

// Whether it can be built and needs no more than the device has.
bool fits(const Plan& plan, const Experiment& experiment);
bool fits(const Plan& plan, const PlanningTask& task);  // the same for the task's experiment

// Whether the plan has what the user has fixed.
bool holds(const PlanningTask& task, const Plan& plan);

// May the task's planner propose this plan: it can be built, and has what the user has fixed.
bool allowed(const PlanningTask& task, const Plan& plan);

// The base plan with the smallest degree that it allows and gradients reduced after the step where they are not sliced
// yet. If a planner finds nothing to propose, evaluating this tells why: it throws the InputError.
Plan simplest(const PlanningTask& task);

// The candidate degrees that the base plan allows for this experiment, ascending, each once. Throws the InputError of
// the smallest when there is none.
std::vector<int> allowed_degrees(const PlanningTask& task);

}  // namespace dovetail::planners
