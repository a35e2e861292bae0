// SPDX-License-Identifier: Apache-2.0
// Kinds of op that slow each other while they run together.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/provenance.hpp"
#include "models/plan/communication.hpp"
#include "models/plan/plan.hpp"

namespace dovetail {

enum class InterferenceClass { Compute, Inter, Intra, Copy };
inline constexpr std::array<std::pair<std::string_view, InterferenceClass>, 4> interference_class_names{
    {{"compute", InterferenceClass::Compute},
     {"inter", InterferenceClass::Inter},
     {"intra", InterferenceClass::Intra},
     {"copy", InterferenceClass::Copy}}};

struct KeptSpeed {
  InterferenceClass kind = InterferenceClass::Compute;
  double speed = 1;  // share of its own speed
};

// While a and b run together, a keeps a_speed of its own speed and b keeps b_speed. With c, all three run together:
// they are slowed further than their pairs say, and two of them alone are not. The speeds add up to at least 1, those
// of three to at least what any two of them keep beside each other (MPipeMoE, section II-C: mu, sigma and eta).
//
// With `all_to_all` or `messages` the entry is of all-to-alls that go so, and takes the place of entries with fewer of
// these restrictions (Tutel, section 2.3: algorithms that are equally fast alone are not beside computation).
struct Interference {
  InterferenceClass a = InterferenceClass::Compute, b = InterferenceClass::Inter;
  double a_speed = 1, b_speed = 1;
  Provenance provenance;
  std::optional<KeptSpeed> c = {};
  std::optional<AllToAll> all_to_all = {};
  std::optional<Protocol> messages = {};  // not BySize

  int restrictions() const { return static_cast<int>(all_to_all.has_value()) + static_cast<int>(messages.has_value()); }
};

// visit(KeptSpeed) for a, b and c.
template <class Visit>
void for_each_kept(const Interference& entry, Visit visit) {
  visit(KeptSpeed{entry.a, entry.a_speed});
  visit(KeptSpeed{entry.b, entry.b_speed});
  if (entry.c) visit(*entry.c);
}

bool has_kind(const Interference& entry, InterferenceClass kind);

// Whether both are of the same kinds, in any order.
bool same_kinds(const Interference& x, const Interference& y);

// "compute/inter" and what it is restricted to: "compute/inter/copy, two_dimensional, low_latency".
std::string name_of(const Interference& entry);

// Whether an entry, one of `all`, counts for an exchange: `all_to_all` tells its messages (none: another collective).
// Entries of other algorithms are taken to be left out of `all`; see interference_of.
bool counts_for(const Interference& entry, std::span<const Interference> all, std::optional<Protocol> all_to_all);

}  // namespace dovetail
