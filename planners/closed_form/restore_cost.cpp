// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/restore_cost.hpp"

#include <algorithm>
#include <array>

#include "models/price/calibration.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::planners {
namespace {

using Work = std::array<double, interference_class_names.size()>;  // seconds at full speed, by kind

bool of_experts(OpKind kind) {
  return entry_of(kind).part == OpPart::Experts;
}

// The kind of resource that the op keeps busiest.
std::size_t kind_of(const PricedSchedule& p, OpId op) {
  const std::size_t kinds = kinds_of(*p.schedule), by_kind = kinds * p.schedule->classes.size();
  Work seconds{};
  p.for_each_demand(op, [&](const Demand& d) {
    if (const auto resource = static_cast<std::size_t>(d.resource); resource < by_kind)
      seconds[resource % kinds] += d.seconds.value();
  });
  return static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
}

double speed(std::size_t kind, const Work& used, std::span<const Interference> interference) {
  double slowest = 1;
  for (const Interference& entry : interference) {
    bool others_run = true;
    double kept_speed = 1;
    for_each_kept(entry, [&](const KeptSpeed& kept) {
      if (static_cast<std::size_t>(kept.kind) == kind)
        kept_speed = kept.speed;
      else
        others_run = others_run && used[static_cast<std::size_t>(kept.kind)] > 0;
    });
    if (others_run) slowest = std::min(slowest, kept_speed);
  }
  return slowest;
}

}  // namespace

Seconds restore_cost(const PricedSchedule& priced, std::span<const Interference> interference) {
  Work forward{}, backward{}, both{};
  const auto& ops = priced.schedule->ops;
  for (const OpId i : ops.ids()) {
    if (!of_experts(ops[i].kind)) continue;
    const std::size_t kind = kind_of(priced, i);
    (ops[i].pass() == Phase::Forward ? forward : backward)[kind] += priced.duration[i].value();
    both[kind] += priced.duration[i].value();
  }
  const auto pass = [&](const Work& work) {
    double slowest = 0;
    for (std::size_t kind = 0; kind < work.size(); ++kind)
      slowest = std::max(slowest, work[kind] / speed(kind, both, interference));
    return slowest;
  };
  return Seconds(pass(forward) + pass(backward));
}

}  // namespace dovetail::planners
