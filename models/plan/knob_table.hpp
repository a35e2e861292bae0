// SPDX-License-Identifier: Apache-2.0
// Every knob of a plan, described once. Readers and writers of plans, rules, planners, help, schemas and documents go
// through this table, so that a knob or a value that is added to it is known to all of them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "models/plan/plan.hpp"

namespace dovetail {

// One of the named values of a knob. `value` is the enumerator as a number.
struct KnobValue {
  std::string_view name;
  int value = 0;
  std::string_view help;  // one sentence
  bool built = true;      // false: named in published systems, and refused
};

// The types of knobs. Bounds are inclusive.
struct ChoiceKnob {
  static constexpr std::size_t most = 16;
  std::array<KnobValue, most> stored;  // the default is the first
  std::size_t count;
  int (*get)(const Plan&);
  void (*set)(Plan&, int);

  constexpr std::span<const KnobValue> values() const { return {stored.data(), count}; }
};
struct FlagKnob {
  bool Plan::*member;
};
struct CountKnob {
  int Plan::*member;
  int least, most;
};
struct BytesKnob {  // at least one byte
  std::int64_t Plan::*member;
};
struct CountsKnob {
  std::vector<int> Plan::*member;
  int least, most;  // of each number
};
struct SlicesKnob {
  std::vector<GradientSlice> Plan::*member;
};
// A program, in files a list of lines or the path of a file that has them.
struct ProgramKnob {
  ListedProgram Plan::*member;
};
// Some of the named values, or none, which is the default. In files: "none", one name, or a list of names. `get` and
// `set`: as EnumSet::bits().
struct SetKnob {
  std::array<KnobValue, ChoiceKnob::most> stored;
  std::size_t count;
  std::uint32_t (*get)(const Plan&);
  void (*set)(Plan&, std::uint32_t);

  constexpr std::span<const KnobValue> values() const { return {stored.data(), count}; }
  bool has(const Plan& plan, const KnobValue& value) const {
    return (get(plan) >> static_cast<unsigned>(value.value) & 1U) != 0;
  }
};
inline constexpr std::string_view no_values = "none";  // of a SetKnob
using KnobType = std::variant<ChoiceKnob, FlagKnob, CountKnob, BytesKnob, CountsKnob, SlicesKnob, ProgramKnob, SetKnob>;

// Arrangement: what runs side by side. Volumes: which ops there are, and how long each of them takes. Pipeline: how the
// batch goes through the stages. Memory: what is kept for the backward pass. Gradients: when they are reduced. Degrees:
// numbers of chunks. Numerics: number formats of messages.
enum class KnobClass { Arrangement, Volumes, Pipeline, Memory, Gradients, Degrees, Numerics };
inline constexpr Names<KnobClass, 7> knob_class_names{{{"arrangement", KnobClass::Arrangement},
                                                       {"volumes", KnobClass::Volumes},
                                                       {"pipeline", KnobClass::Pipeline},
                                                       {"memory", KnobClass::Memory},
                                                       {"gradients", KnobClass::Gradients},
                                                       {"degrees", KnobClass::Degrees},
                                                       {"numerics", KnobClass::Numerics}}};

// How planners that search whole plans (SearchSpace::Plans) treat a knob. Alone: every built value is an alternative.
// Together: planners/search/plan_space.cpp says which values go with those of other knobs. Kept: it stays as the system
// or the user has it.
enum class KnobSearch { Alone, Together, Kept };

// A field of a table that has no default: an entry that leaves it out does not compile.
template <class T>
class Stated {
 public:
  constexpr Stated(T value) : value_(value) {}     // NOLINT(google-explicit-constructor): it stands for the value
  constexpr operator T() const { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  T value_;
};

struct Knob {
  std::string_view name;  // in files and in --set plan.NAME
  KnobType type;
  Stated<KnobClass> group;
  Stated<KnobSearch> search;
  std::string_view searched_as = {};  // its alternatives in a planner's words; empty where another knob's say it
  Stated<bool> holds_rows;            // decides which rows the backward pass needs of the forward pass
  bool built = true;      // false: values other than the default are refused; each value of a ChoiceKnob says so
  std::string_view help;  // a sentence or two
};

// In the order of the members of Plan, one for each.
std::span<const Knob> knobs();

// The knob of that name; an InternalError where there is none.
const Knob& knob(std::string_view name, std::span<const Knob> table = knobs());

// The names of a knob that is a ChoiceKnob or a SetKnob; empty for the others.
std::span<const KnobValue> named_values(const Knob& knob);

// The values of a knob that is a ChoiceKnob, as `Enum`, those alone that can be built.
std::vector<int> built_values(const Knob& knob);
template <class Enum>
std::vector<Enum> built_values(std::string_view name, std::span<const Knob> table = knobs()) {
  std::vector<Enum> values;
  for (const int value : built_values(knob(name, table))) values.push_back(static_cast<Enum>(value));
  return values;
}

bool same_value(const Knob& knob, const Plan& a, const Plan& b);
bool has_default(const Knob& knob, const Plan& plan);

// Gives `to` the value that `from` has, of one knob or of all knobs of a class.
void copy_value(const Knob& knob, const Plan& from, Plan& to);
void copy_knobs(KnobClass group, const Plan& from, Plan& to);

// The value as numbers, to compare or sort plans by: enumerators, counts, the length of a list and then its items.
void append_value(const Knob& knob, const Plan& plan, std::vector<std::int64_t>& numbers);

// Throws InputError ("/plan/scope: batch is not built yet; built: layer, moe, block") for the first knob, in the order
// of the table, whose value no builder exists for.
void require_built(const Plan& plan, std::span<const Knob> table = knobs());

}  // namespace dovetail
