// Operations on a knob of any type.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/plan/knob_table.hpp"
#include "models/plan/refuse.hpp"

namespace dovetail {
namespace {

// Calls `of_choice` for a ChoiceKnob, and `of_member` with the pointer to the member of Plan for every other type.
template <class OfChoice, class OfMember>
auto visit(const Knob& knob, OfChoice of_choice, OfMember of_member) {
  return std::visit(
      [&](const auto& type) {
        if constexpr (std::is_same_v<decltype(type), const ChoiceKnob&>)
          return of_choice(type);
        else
          return of_member(type.member);
      },
      knob.type);
}

void append(std::int64_t number, std::vector<std::int64_t>& numbers) {
  numbers.push_back(number);
}
void append(const std::vector<int>& list, std::vector<std::int64_t>& numbers) {
  append(std::ssize(list), numbers);
  numbers.insert(numbers.end(), list.begin(), list.end());
}
void append(const std::vector<GradientSlice>& slices, std::vector<std::int64_t>& numbers) {
  append(std::ssize(slices), numbers);
  for (const GradientSlice& slice : slices)
    numbers.insert(numbers.end(), {static_cast<std::int64_t>(slice.window), slice.layer, slice.elements});
}

template <class T>
std::string text(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text(const std::vector<T>& list) {
  return list.empty() ? "none" : fmt::format("a list of {}", list.size());
}

[[noreturn]] void refuse_value(const Knob& knob, std::string_view value, std::string_view built) {
  refuse(knob.name, fmt::format("{} is not built yet; built: {}", value, built));
}

void require_choice(const Knob& knob, const ChoiceKnob& choice, const Plan& plan) {
  const auto values = choice.values();
  const auto found = std::ranges::find(values, choice.get(plan), &KnobValue::value);
  check(found != values.end(), "enumerator without a name");
  if (found->built) return;
  std::vector<std::string_view> built;
  for (const KnobValue& value : values)
    if (value.built) built.push_back(value.name);
  refuse_value(knob, found->name, fmt::format("{}", fmt::join(built, ", ")));
}

}  // namespace

const Knob& knob(std::string_view name, std::span<const Knob> table) {
  const auto found = std::ranges::find(table, name, &Knob::name);
  check(found != table.end(), "no knob has this name");
  return *found;
}

std::vector<int> built_values(const Knob& knob) {
  std::vector<int> built;
  for (const KnobValue& value : std::get<ChoiceKnob>(knob.type).values())
    if (value.built) built.push_back(value.value);
  return built;
}

bool same_value(const Knob& knob, const Plan& a, const Plan& b) {
  return visit(
      knob, [&](const ChoiceKnob& choice) { return choice.get(a) == choice.get(b); },
      [&](auto member) { return a.*member == b.*member; });
}

bool has_default(const Knob& knob, const Plan& plan) {
  static const Plan usual;
  return same_value(knob, plan, usual);
}

void copy_knobs(KnobClass group, const Plan& from, Plan& to) {
  for (const Knob& knob : knobs())
    if (knob.group == group)
      visit(
          knob, [&](const ChoiceKnob& choice) { choice.set(to, choice.get(from)); },
          [&](auto member) { to.*member = from.*member; });
}

void append_value(const Knob& knob, const Plan& plan, std::vector<std::int64_t>& numbers) {
  visit(
      knob, [&](const ChoiceKnob& choice) { append(choice.get(plan), numbers); },
      [&](auto member) { append(plan.*member, numbers); });
}

void require_built(const Plan& plan, std::span<const Knob> table) {
  static const Plan usual;
  for (const Knob& knob : table)
    visit(
        knob, [&](const ChoiceKnob& choice) { require_choice(knob, choice, plan); },
        [&](auto member) {
          if (!knob.built && plan.*member != usual.*member) refuse_value(knob, text(plan.*member), text(usual.*member));
        });
}

}  // namespace dovetail
