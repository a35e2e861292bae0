// SPDX-License-Identifier: Apache-2.0
#include "planners/search/nearest_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/plan/plan_rules.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {
namespace {

constexpr int most_changes = 3;        // of other knobs; no rule of a shipped question asks for more
constexpr std::size_t most_tried = 6;  // of the ways to go on from a plan, those that take the rules furthest

// The layout has the number of micro-batches, and padding is an answer where it was asked for (LayoutSearch).
bool may_change(const Knob& knob) {
  return knob.group != KnobClass::Numerics && knob.name != "micro_batches" && knob.name != "pad_messages";
}

// The plan with each other value of the knob that a search could set.
void add_other_values(const Knob& knob, const Plan& plan, std::vector<Plan>& plans) {
  const auto add = [&](auto set) {
    Plan other = plan;
    set(other);
    if (!same_value(knob, plan, other)) plans.push_back(std::move(other));
  };
  if (const auto* choice = std::get_if<ChoiceKnob>(&knob.type)) {
    for (const int value : built_values(knob)) add([&](Plan& p) { choice->set(p, value); });
  } else if (const auto* flag = std::get_if<FlagKnob>(&knob.type)) {
    if (knob.built) add([&](Plan& p) { p.*flag->member = !(p.*flag->member); });
  } else if (const auto* set = std::get_if<SetKnob>(&knob.type)) {
    for (const KnobValue& value : set->values())
      if (set->has(plan, value))
        add([&](Plan& p) { set->set(p, set->get(p) & ~(1U << static_cast<unsigned>(value.value))); });
  } else {
    add([&](Plan& p) { copy_value(knob, Plan(), p); });
    if (const auto* count = std::get_if<CountKnob>(&knob.type))
      for (const int n : {1, 2})
        if (n >= count->least && n <= count->most) add([&](Plan& p) { p.*count->member = n; });
  }
}

// With other values of the knobs that the refusal names.
std::vector<Plan> neighbours(const Plan& plan, const std::string& refusal) {
  std::vector<Plan> plans;
  for (const Knob& knob : knobs())
    if (may_change(knob) && refusal.find(knob.name) != std::string::npos) add_other_values(knob, plan, plans);
  return plans;
}

std::vector<const Knob*> differing(const Plan& a, const Plan& b) {
  std::vector<const Knob*> found;
  for (const Knob& knob : knobs())
    if (!same_value(knob, a, b)) found.push_back(&knob);
  return found;
}

// The rules that nobody has asked yet when the plan is refused. Each rests on those before it.
std::size_t rules_left(const Plan& plan, const Experiment& e) {
  std::size_t left = plan_rules().size() + 1;
  const std::optional<InputError> refused = refusal_of([&] {
    for_each_rule(plan, e, [&](const PlanRule& rule, const RuledPlan& ruled) {
      --left;
      rule.require(ruled);
    });
  });
  return refused ? left : 0;
}

struct Step {
  std::size_t left = 0;
  std::string why;
  Plan plan;
};

std::optional<Plan> search(const Step& from, const Experiment& e, const Keeps& keeps, std::vector<std::string>& seen,
                           int changes) {
  if (changes == 0) return std::nullopt;
  std::vector<Step> steps;
  for (Plan& plan : neighbours(from.plan, from.why)) {
    if (!keeps(plan)) continue;
    const std::size_t left = rules_left(plan, e);
    if (left > from.left) continue;
    const std::optional<InputError> refused = refusal(plan, e);
    if (!refused) return std::move(plan);
    if (left < from.left || std::ranges::count(seen, refused->what()) == 0)
      steps.push_back({left, refused->what(), std::move(plan)});
  }
  std::ranges::stable_sort(steps, {}, &Step::left);
  for (std::size_t i = 0; i < std::min(most_tried, steps.size()); ++i) {
    seen.push_back(steps[i].why);
    if (std::optional<Plan> found = search(steps[i], e, keeps, seen, changes - 1)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Plan> NearestPlans::remembered(const Plan& wanted, const Experiment& e, const Keeps& keeps) const {
  for (const Changed& changed : known_) {
    Plan plan = wanted;
    for (const Knob* knob : changed.knobs) copy_value(*knob, changed.to, plan);
    if (plan != wanted && keeps(plan) && !refusal(plan, e)) return plan;
  }
  return std::nullopt;
}

std::optional<Plan> NearestPlans::find(const Plan& wanted, const Experiment& e, const Keeps& keeps) {
  const std::optional<InputError> refused = refusal(wanted, e);
  if (!refused) return wanted;
  if (std::optional<Plan> plan = remembered(wanted, e, keeps)) return plan;
  const std::string hopeless = fmt::format("{} {} {}", refused->what(), e.parallelism.ep, e.parallelism.esp);
  if (hopeless_.contains(hopeless)) return std::nullopt;
  std::vector<std::string> seen{refused->what()};
  std::optional<Plan> found = search({rules_left(wanted, e), refused->what(), wanted}, e, keeps, seen, most_changes);
  if (found)
    known_.push_back({differing(wanted, *found), *found});
  else
    hopeless_.insert(hopeless);
  return found;
}

Keeps keeps_changes(const Plan& from, const Plan& wanted) {
  return [wanted, changed = differing(from, wanted)](const Plan& plan) {
    return std::ranges::all_of(changed, [&](const Knob* knob) { return same_value(*knob, plan, wanted); });
  };
}

}  // namespace dovetail::planners
