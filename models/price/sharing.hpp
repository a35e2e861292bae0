// SPDX-License-Identifier: Apache-2.0
// Activities that run at the same time and share resources fairly (fair_rates.hpp), as time passes.
#pragma once
#include <span>
#include <vector>

#include "models/price/fair_rates.hpp"

namespace dovetail {

bool demands_something(std::span<const Demand> demands);

class Sharing {
 public:
  static constexpr double used_up = 1e-12;  // the relative rest of a time that counts as nothing

  explicit Sharing(const PricedSchedule& priced);

  void begin(ActivityId activity);
  bool idle() const { return running_.empty(); }
  double now() const { return now_; }

  // How long all rates stay as they are.
  double next();

  // Lets time pass, no more than next(). ended(activity) for those that do.
  template <class Ended>
  void advance(double step, Ended ended) {
    pass(step);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const double time = left_[i] / running_[i].rate - step;
      if (time <= used_up * now_) {
        ended(running_[i].activity);
        changed_ = true;
        continue;
      }
      running_[kept] = running_[i];
      left_[kept++] = left_[i] - step * running_[i].rate;
    }
    running_.resize(kept);
    left_.resize(kept);
  }

 private:
  void pass(double step);  // moves the clock, and the speeds that change by then

  std::span<const SpeedChange> changes_;
  std::size_t next_change_ = 0;
  FairRates rates_;
  std::vector<Running> running_;
  std::vector<double> left_;  // by running activity: 1 at its start, 0 at its end
  bool changed_ = false;      // what runs, or how fast resources are
  double now_ = 0;
};

}  // namespace dovetail
