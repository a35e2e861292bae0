// SPDX-License-Identifier: Apache-2.0
// How fast activities progress that share resources. Each resource gives every flow on it as much as any other, unless
// the flow cannot use that because another resource holds its activity back; what it leaves goes to the others. On a
// network of links that is max-min fairness.
#pragma once
#include <span>
#include <vector>

#include "models/price/priced_schedule.hpp"

namespace dovetail {

// An activity that runs; `rate` is the share of it done in a second.
struct Running {
  ActivityId activity;
  double rate = 0;
};

class FairRates {
 public:
  explicit FairRates(const PricedSchedule& priced);

  void set_speed(int resource, double speed);

  // Sets the rates. Each activity demands something.
  void solve(std::span<Running> running);

 private:
  struct Use {
    std::size_t slot;
    double seconds, flows;
  };

  void collect(std::span<const Running> running);
  void offer();
  bool settle(std::span<Running> running);
  void fill(std::span<Running> running);
  void take(std::size_t i, double rate);
  std::span<const Use> uses_of(std::size_t i) const {
    const std::size_t first = i == 0 ? 0 : last_use_[i - 1];
    return {uses_.data() + first, uses_.data() + last_use_[i]};
  }

  const PricedSchedule& priced_;
  std::vector<double> speed_;  // by resource
  // Resources in use have a slot each.
  std::vector<std::size_t> slot_;        // by resource
  std::vector<int> resource_;            // by slot, as what follows
  std::vector<double> left_, per_flow_;  // what is left of its speed; what that gives each flow
  std::vector<double> flows_;            // of activities that are not settled
  std::vector<int> users_, held_;        // such activities; those of them that no other resource holds back more
  // Indexed by running activity.
  std::vector<Use> uses_;
  std::vector<std::size_t> last_use_;
  std::vector<double> most_;       // its rate if it got no more than what each resource offers
  std::vector<std::size_t> open_;  // those that are not settled
};

}  // namespace dovetail
