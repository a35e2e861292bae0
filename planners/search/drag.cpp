// SPDX-License-Identifier: Apache-2.0
#include "planners/search/drag.hpp"

#include <algorithm>
#include <array>

#include "models/price/calibration.hpp"
#include "models/price/price.hpp"

namespace dovetail::planners {
namespace {

constexpr double least_speed = .1;  // prices keep lower ones by the nearest shares alone, and so higher
constexpr auto compute_kind = static_cast<std::size_t>(InterferenceClass::Compute);

using Losses = std::array<double, interference_class_names.size()>;  // by kind of communication

// Three kinds at once may slow computation too.
bool slows_computation(const Interference& entry, std::size_t kinds) {
  bool slows = entry.c.has_value(), there = true;
  for_each_kept(entry, [&](const KeptSpeed& kept) {
    slows = slows || (kept.kind == InterferenceClass::Compute && kept.speed < 1);
    there = there && static_cast<std::size_t>(kept.kind) < kinds;
  });
  return slows && there && has_kind(entry, InterferenceClass::Compute);
}

// Communication loses at least this beside computation; 0 where computation may be slowed itself.
Losses losses(std::span<const Interference> entries, std::size_t kinds) {
  const auto slows = [&](const Interference& entry) { return slows_computation(entry, kinds); };
  if (std::ranges::any_of(entries, slows)) return {};
  Losses of_all{}, of_some;  // exchanges; entries of some all-to-alls may say less than that of the others
  of_some.fill(1);
  for (const Interference& entry : entries) {
    if (entry.c || !has_kind(entry, InterferenceClass::Compute)) continue;
    const bool first = entry.a == InterferenceClass::Compute;
    const auto kind = static_cast<std::size_t>(first ? entry.b : entry.a);
    const double speed = first ? entry.b_speed : entry.a_speed, loss = speed < least_speed ? 0 : 1 - speed;
    if (entry.restrictions() == 0)
      of_all[kind] = loss;
    else
      of_some[kind] = std::min(of_some[kind], loss);
  }
  Losses least;
  std::ranges::transform(of_all, of_some, least.begin(), [](double all, double some) { return std::min(all, some); });
  return least;
}

}  // namespace

double drag_of(const PricedSchedule& priced, StreamId stream, std::span<const Interference> pairs) {
  if (pairs.empty() || !stream.exists() || !priced.first_activity.empty()) return 0;
  const Schedule& s = *priced.schedule;
  const std::size_t kinds = kinds_of(s);
  const Losses loss = losses(pairs, kinds);
  std::array<bool, interference_class_names.size()> here{}, elsewhere{};
  for (const OpId i : s.ops.ids()) {
    if (s.class_of(s.ops[i]) != 0) continue;
    priced.for_each_demand(i, [&](const Demand& d) {
      if (static_cast<std::size_t>(d.resource) < kinds && d.seconds > Seconds(0))
        (s.ops[i].stream == stream ? here : elsewhere)[static_cast<std::size_t>(d.resource)] = true;
    });
  }
  double drag = 1;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if (kind == compute_kind) continue;
    if (here[kind]) drag = std::min(drag, elsewhere[kind] ? 0 : loss[kind]);
  }
  return drag < 1 ? drag : 0;
}

}  // namespace dovetail::planners
