// SPDX-License-Identifier: Apache-2.0
#include "models/price/sharing.hpp"

#include <algorithm>
#include <limits>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

bool demands_something(std::span<const Demand> demands) {
  return std::ranges::any_of(demands, [](const Demand& d) { return d.seconds > Seconds(0); });
}

Sharing::Sharing(const PricedSchedule& priced) : changes_(priced.speed_changes), rates_(priced) {}

void Sharing::begin(ActivityId activity) {
  running_.push_back({activity});
  left_.push_back(1);
  changed_ = true;
}

double Sharing::next() {
  double step = next_change_ < changes_.size() ? changes_[next_change_].at.value() - now_ : never;
  if (changed_) rates_.solve(running_);
  changed_ = false;
  for (std::size_t i = 0; i < running_.size(); ++i) step = std::min(step, left_[i] / running_[i].rate);
  return std::max(step, 0.0);
}

void Sharing::pass(double step) {
  check(step < never, "an activity that never ends");
  now_ += step;
  for (; next_change_ < changes_.size() && changes_[next_change_].at.value() <= now_; ++next_change_) {
    rates_.set_speed(changes_[next_change_].resource, changes_[next_change_].speed);
    changed_ = true;
  }
}

}  // namespace dovetail
