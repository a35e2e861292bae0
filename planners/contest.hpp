// Keeps the fastest of the plans that a planner proposes, and what its report says of the others.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/base/errors.hpp"
#include "planners/planner.hpp"

namespace dovetail::planners {

// An evaluator gives at least this to a plan that cannot stand beside the others, such as one that does not fit.
inline constexpr Seconds no_time(1e9);

class Contest {
 public:
  explicit Contest(const Evaluator& evaluate) : evaluate_(evaluate) {}

  // Evaluates a plan not seen before. The first of equally fast plans stays ahead, so propose small degrees first.
  void propose(const Plan& plan) { time_of(plan); }
  Seconds time_of(const Plan& plan);  // the same, and how long it takes

  bool empty() const { return entries_.empty(); }
  std::size_t timed() const;  // plans that have a time
  const Plan& best() const;
  Seconds best_time() const;
  // `describe` says what is chosen in a plan, for the runner-up; by default "degree 4 / 8".
  using Describe = std::function<std::string(const Plan&)>;
  PlanChoice finish(std::string_view planner, std::string reason, const Describe& describe = {}) const;

 private:
  struct Entry {
    Plan plan;
    Seconds time;
  };
  const Evaluator& evaluate_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Entry> entries_;
  std::size_t best_ = 0;
};

// The plan without what is still to be chosen: backward degrees of each layer, gradient slices.
Plan without_choices(Plan plan);

// "4 / 8" (forward / backward), "4 / 2-8" where layers differ.
std::string describe_degrees(const Plan& plan);

// Why the plan cannot be built; none: it can.
std::optional<InputError> refusal(const Plan& plan, const Experiment& experiment);

// Whether it can be built and needs no more than the device has.
bool fits(const Plan& plan, const Experiment& experiment);
bool fits(const Plan& plan, const PlanningTask& task);  // the same for the task's experiment

// The base plan with the smallest degree that it allows and gradients reduced after the step where they are not sliced
// yet. If a planner finds nothing to propose, evaluating this tells why: it throws the InputError.
Plan simplest(const PlanningTask& task);

// The candidate degrees that the base plan allows for this experiment, ascending, each once. Throws the InputError of
// the smallest when there is none.
std::vector<int> allowed_degrees(const PlanningTask& task);

}  // namespace dovetail::planners
