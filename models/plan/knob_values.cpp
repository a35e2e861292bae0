// SPDX-License-Identifier: Apache-2.0
// Operations on a knob of any type.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "models/base/errors.hpp"
#include "models/plan/knob_table.hpp"
#include "models/plan/program.hpp"
#include "models/plan/refuse.hpp"

namespace dovetail {
namespace {

// Calls `of_names` for a ChoiceKnob or a SetKnob, and `of_member` with the pointer to the member of Plan for every
// other type.
template <class OfNames, class OfMember>
auto visit(const Knob& knob, OfNames of_names, OfMember of_member) {
  return std::visit(
      [&](const auto& type) {
        if constexpr (requires { type.values(); })
          return of_names(type);
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

void append(const ListedProgram& program, std::vector<std::int64_t>& numbers) {
  append(program.ranks(), numbers);
  for (const std::vector<Slot>& slots : program.program().ranks) {
    append(std::ssize(slots), numbers);
    for (const Slot& slot : slots)
      for (const std::optional<Unit>& unit : {std::optional(slot.unit), slot.beside})
        numbers.insert(numbers.end(), {unit ? static_cast<std::int64_t>(unit->kind) : -1, unit ? unit->stage : 0,
                                       unit ? unit->micro_batch : 0});
  }
}

template <class T>
std::string text(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text(const std::vector<T>& list) {
  return list.empty() ? "none" : fmt::format("a list of {}", list.size());
}

std::string text(const ListedProgram& program) {
  return text(program.lines());
}

[[noreturn]] void refuse_value(const Knob& knob, std::string_view value, std::string_view built) {
  refuse(knob.name, fmt::format("{} is not built yet; built: {}", value, built));
}

void require_built_value(const Knob& knob, const KnobValue& value, std::vector<std::string_view> built) {
  if (value.built) return;
  for (const KnobValue& other : named_values(knob))
    if (other.built) built.push_back(other.name);
  refuse_value(knob, value.name, fmt::format("{}", fmt::join(built, ", ")));
}

void require_names(const Knob& knob, const ChoiceKnob& choice, const Plan& plan) {
  const auto values = choice.values();
  const auto found = std::ranges::find(values, choice.get(plan), &KnobValue::value);
  check(found != values.end(), "enumerator without a name");
  require_built_value(knob, *found, {});
}

void require_names(const Knob& knob, const SetKnob& set, const Plan& plan) {
  for (const KnobValue& value : set.values())
    if (set.has(plan, value)) require_built_value(knob, value, {no_values});
}

}  // namespace

const Knob& knob(std::string_view name, std::span<const Knob> table) {
  const auto found = std::ranges::find(table, name, &Knob::name);
  check(found != table.end(), "no knob has this name");
  return *found;
}

std::span<const KnobValue> named_values(const Knob& knob) {
  return visit(
      knob, [](const auto& names) { return names.values(); }, [](auto) { return std::span<const KnobValue>(); });
}

std::vector<int> built_values(const Knob& knob) {
  std::vector<int> built;
  for (const KnobValue& value : std::get<ChoiceKnob>(knob.type).values())
    if (value.built) built.push_back(value.value);
  return built;
}

bool same_value(const Knob& knob, const Plan& a, const Plan& b) {
  return visit(
      knob, [&](const auto& names) { return names.get(a) == names.get(b); },
      [&](auto member) { return a.*member == b.*member; });
}

bool has_default(const Knob& knob, const Plan& plan) {
  static const Plan usual;
  return same_value(knob, plan, usual);
}

void copy_value(const Knob& knob, const Plan& from, Plan& to) {
  visit(
      knob, [&](const auto& names) { names.set(to, names.get(from)); },
      [&](auto member) { to.*member = from.*member; });
}

void copy_knobs(KnobClass group, const Plan& from, Plan& to) {
  for (const Knob& knob : knobs())
    if (knob.group == group) copy_value(knob, from, to);
}

void append_value(const Knob& knob, const Plan& plan, std::vector<std::int64_t>& numbers) {
  visit(
      knob, [&](const auto& names) { append(names.get(plan), numbers); },
      [&](auto member) { append(plan.*member, numbers); });
}

void require_built(const Plan& plan, std::span<const Knob> table) {
  static const Plan usual;
  for (const Knob& knob : table)
    visit(
        knob, [&](const auto& names) { require_names(knob, names, plan); },
        [&](auto member) {
          if (!knob.built && plan.*member != usual.*member) refuse_value(knob, text(plan.*member), text(usual.*member));
        });
}

}  // namespace dovetail
