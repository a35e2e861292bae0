#include "planners/search/drag.hpp"

#include <algorithm>
#include <array>

#include "models/price/calibration.hpp"
#include "models/price/price.hpp"

namespace dovetail::planners {
namespace {

constexpr double least_speed = .1;  // prices keep lower ones by the nearest shares alone, and so higher
constexpr auto compute_kind = static_cast<std::size_t>(InterferenceClass::Compute);

// By kind of communication; 0 where computation does not slow it, or is slowed.
std::array<double, interference_class_names.size()> losses(std::span<const Interference> pairs) {
  std::array<double, interference_class_names.size()> loss{};
  bool slowed = false;
  for (const Interference& pair : pairs) {
    const bool first = pair.a == InterferenceClass::Compute;
    if (!first && pair.b != InterferenceClass::Compute) continue;
    slowed = slowed || (first ? pair.a_speed : pair.b_speed) < 1;
    const double speed = first ? pair.b_speed : pair.a_speed;
    loss[static_cast<std::size_t>(first ? pair.b : pair.a)] = speed < least_speed ? 0 : 1 - speed;
  }
  if (slowed) loss.fill(0);
  return loss;
}

}  // namespace

double drag_of(const PricedSchedule& priced, StreamId stream, std::span<const Interference> pairs) {
  if (pairs.empty() || !stream.exists() || !priced.first_activity.empty()) return 0;
  const auto loss = losses(pairs);
  const Schedule& s = *priced.schedule;
  const std::size_t kinds = kinds_of(s);
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
