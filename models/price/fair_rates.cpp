// SPDX-License-Identifier: Apache-2.0
#include "models/price/fair_rates.hpp"

#include <algorithm>
#include <limits>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr std::size_t no_slot = static_cast<std::size_t>(-1);
constexpr double used_up = 1e-12;      // what is left of a resource that counts as nothing
constexpr double equally = 1 + 1e-11;  // offers that differ less came out of rounding

}  // namespace

FairRates::FairRates(const PricedSchedule& priced)
    : priced_(priced), speed_(priced.resources.size(), 1.0), slot_(priced.resources.size(), no_slot) {}

void FairRates::set_speed(int resource, double speed) {
  speed_[static_cast<std::size_t>(resource)] = speed;
}

// A resource that holds back all its activities more than any other does is their bottleneck: whatever happens
// elsewhere, they get what it offers now. Once they are settled, the next bottleneck shows. Bottlenecks may also hold
// each other back in a circle (interference can do that, links cannot). Then the rest is filled up.
void FairRates::solve(std::span<Running> running) {
  collect(running);
  while (!open_.empty()) {
    offer();
    if (!settle(running)) fill(running);
  }
  for (int r : resource_) slot_[static_cast<std::size_t>(r)] = no_slot;
}

void FairRates::collect(std::span<const Running> running) {
  resource_.clear();
  left_.clear();
  uses_.clear();
  last_use_.clear();
  open_.clear();
  for (std::size_t i = 0; i < running.size(); ++i) {
    for (const Demand& d : priced_.demands_of(running[i].activity)) {
      if (d.seconds <= Seconds(0)) continue;
      std::size_t& slot = slot_[static_cast<std::size_t>(d.resource)];
      if (slot == no_slot) {
        slot = resource_.size();
        resource_.push_back(d.resource);
        left_.push_back(speed_[static_cast<std::size_t>(d.resource)]);
      }
      uses_.push_back({slot, d.seconds.value(), static_cast<double>(d.multiplicity)});
    }
    last_use_.push_back(uses_.size());
    check(!uses_of(i).empty(), "an activity without demands has no rate");
    open_.push_back(i);
  }
  most_.resize(running.size());
}

void FairRates::offer() {
  flows_.assign(resource_.size(), 0);
  users_.assign(resource_.size(), 0);
  held_.assign(resource_.size(), 0);
  per_flow_.resize(resource_.size());
  for (std::size_t i : open_)
    for (const Use& use : uses_of(i)) {
      flows_[use.slot] += use.flows;
      ++users_[use.slot];
    }
  for (std::size_t slot = 0; slot < resource_.size(); ++slot) per_flow_[slot] = left_[slot] / flows_[slot];
  for (std::size_t i : open_) {
    most_[i] = std::numeric_limits<double>::infinity();
    for (const Use& use : uses_of(i)) most_[i] = std::min(most_[i], per_flow_[use.slot] * use.flows / use.seconds);
    for (const Use& use : uses_of(i))
      if (per_flow_[use.slot] * use.flows <= most_[i] * use.seconds * equally) ++held_[use.slot];
  }
}

// Settles the activities of resources that hold back all of theirs; whether there was such a resource.
bool FairRates::settle(std::span<Running> running) {
  const auto bottleneck = [&](const Use& use) { return held_[use.slot] == users_[use.slot]; };
  const auto settled = [&](std::size_t i) {
    if (std::ranges::none_of(uses_of(i), bottleneck)) return false;
    running[i].rate = most_[i];
    take(i, most_[i]);
    return true;
  };
  return std::erase_if(open_, settled) > 0;
}

// Progressive filling: every round each activity takes what the scarcest of its resources offers, and those on a
// resource that is used up are settled.
void FairRates::fill(std::span<Running> running) {
  for (std::size_t i : open_) running[i].rate = 0;
  while (!open_.empty()) {
    for (std::size_t i : open_) {
      running[i].rate += most_[i];
      take(i, most_[i]);
    }
    std::erase_if(open_, [&](std::size_t i) {
      return std::ranges::any_of(uses_of(i), [&](const Use& use) { return left_[use.slot] <= used_up; });
    });
    if (!open_.empty()) offer();
  }
}

void FairRates::take(std::size_t i, double rate) {
  for (const Use& use : uses_of(i)) left_[use.slot] = std::max(0.0, left_[use.slot] - rate * use.seconds);
}

}  // namespace dovetail
