// SPDX-License-Identifier: Apache-2.0
#include "models/files/interference_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "models/base/json/json_reader.hpp"
#include "models/base/names.hpp"

namespace dovetail {
namespace {

constexpr double rounding = 1e-9;

// Three kinds that get no more done together than two of them would be no reason to run all three.
void require_more_work(const JsonReader& json, const Interference& three, const std::vector<Interference>& all) {
  double together = 0;
  for_each_kept(three, [&](const KeptSpeed& kept) { together += kept.speed; });
  for_each_kept(three, [&](const KeptSpeed& left_out) {
    double pair_speeds = 2;
    for (const Interference& pair : all)
      if (!pair.c && !has_kind(pair, left_out.kind) && has_kind(three, pair.a) && has_kind(three, pair.b))
        pair_speeds = std::min(pair_speeds, pair.a_speed + pair.b_speed);
    if (together < pair_speeds - rounding)
      json.fail(fmt::format("speeds add up to {:.4g}, less than the {:.4g} of its kinds without {}", together,
                            pair_speeds, name_in(interference_class_names, left_out.kind)));
  });
}

void require_entry(const JsonReader& json, const Interference& entry) {
  const auto twice = [&](const char* key, InterferenceClass kind) {
    json.fail(key, fmt::format("{} twice, expected {} kinds", name_in(interference_class_names, kind),
                               entry.c ? "three" : "two"));
  };
  if (entry.a == entry.b) twice("b", entry.b);
  if (entry.c && (entry.c->kind == entry.a || entry.c->kind == entry.b)) twice("c", entry.c->kind);
  if (!entry.c && entry.a_speed + entry.b_speed < 1)
    json.fail(fmt::format("speeds {} and {} add up to less than 1: then one after the other would be faster",
                          entry.a_speed, entry.b_speed));
}

}  // namespace

void require_interference(const JsonReader& list, const std::vector<Interference>& all) {
  const std::vector<JsonReader> entries = list.elements();
  for (std::size_t i = 0; i < all.size(); ++i) {
    require_entry(entries[i], all[i]);
    for (const Interference& other : std::span(all).first(i))
      if (same_kinds(other, all[i]) && other.all_to_all == all[i].all_to_all && other.messages == all[i].messages)
        entries[i].fail(fmt::format("a second entry for {}, expected one", name_of(all[i])));
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].c) require_more_work(entries[i], all[i], all);
}

}  // namespace dovetail
