// SPDX-License-Identifier: Apache-2.0
// Measures again what a slow while of a shared machine has disturbed. A product of fixed size is timed before and after
// each measurement.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "exec/host/pace.hpp"
#include "models/base/json/json_reader.hpp"

namespace dovetail::bench {

class Undisturbed {
 public:
  // `wait` passes the time while the machine is slow.
  explicit Undisturbed(exec::Pace pace, std::function<void()> wait = sleep_a_little);

  // Returns what `measure` finds out, with "slowdown", the larger of the two readings of the pace, and "again", how
  // often it was measured again: at most three times. Each begins when the pace is as usual, or after 80 waits in all,
  // which are 20 s. The least disturbed is taken.
  nlohmann::ordered_json make(const std::function<nlohmann::ordered_json()>& measure);

  // Counts a measurement, of this run or an earlier one.
  void count(const JsonReader& made);

  // A sentence for readers; empty: nothing was counted.
  std::string note() const;

 private:
  static void sleep_a_little();
  bool slow() { return (last_ = pace_.slowdown()) > most_slowdown; }

  static constexpr double most_slowdown = 1.05;

  exec::Pace pace_;
  std::function<void()> wait_;
  double last_ = 1, worst_ = 1;
  long all_ = 0, again_ = 0, disturbed_ = 0;
};

}  // namespace dovetail::bench
