// SPDX-License-Identifier: Apache-2.0
#include "models/price/interference.hpp"

#include <algorithm>

#include "models/base/names.hpp"

namespace dovetail {

bool has_kind(const Interference& entry, InterferenceClass kind) {
  return entry.a == kind || entry.b == kind || (entry.c && entry.c->kind == kind);
}

bool same_kinds(const Interference& x, const Interference& y) {
  bool same = x.c.has_value() == y.c.has_value();
  for_each_kept(x, [&](const KeptSpeed& kept) { same = same && has_kind(y, kept.kind); });
  return same;
}

std::string name_of(const Interference& entry) {
  std::string name;
  for_each_kept(entry, [&](const KeptSpeed& kept) {
    if (!name.empty()) name += '/';
    name += name_in(interference_class_names, kept.kind);
  });
  if (entry.all_to_all) name.append(", ").append(name_in(all_to_all_names, *entry.all_to_all));
  if (entry.messages) name.append(", ").append(name_in(protocol_names, *entry.messages));
  return name;
}

bool counts_for(const Interference& entry, std::span<const Interference> all, std::optional<Protocol> all_to_all) {
  const auto holds = [&](const Interference& other) {
    return other.restrictions() == 0 || (all_to_all && (!other.messages || *other.messages == *all_to_all));
  };
  return holds(entry) && std::ranges::none_of(all, [&](const Interference& other) {
           return other.restrictions() > entry.restrictions() && same_kinds(other, entry) && holds(other);
         });
}

}  // namespace dovetail
