// SPDX-License-Identifier: Apache-2.0
// Steps of one question as the analytic model sees them, each predicted once.
//
// Systems have plans in common, and their planners come back to the same plans for other numbers of micro-batches. The
// experiments of one question differ in their batch and in whether ranks repeat tokens, and in nothing else.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planners/step_prediction.hpp"

namespace dovetail::planners {

// Not for several threads at once.
class PredictedSteps {
 public:
  // All throw InputError where the plan is refused or a cost is missing.
  Seconds time(const Experiment& experiment, const Plan& plan);
  Bytes peak(const Experiment& experiment, const Plan& plan);  // device memory of the fullest rank
  int built(const Experiment& experiment, const Plan& plan);   // micro-batches of the longest step built for the time
  // The prediction itself, made again unless it is the last one.
  const StepPrediction& step(const Experiment& experiment, const Plan& plan);
  void forget_last() { last_.reset(); }  // frees its memory

 private:
  using Key = std::vector<std::int64_t>;
  struct Known {
    std::optional<Seconds> time;
    std::optional<Bytes> peak;
    int built = 1;
  };
  static Key key_of(const Experiment& experiment, const Plan& plan);
  const StepPrediction& step(const Key& key, const Experiment& experiment, const Plan& plan);

  std::map<Key, Known> known_;
  Key last_key_;
  std::optional<StepPrediction> last_;  // whose peak is often asked for next
  std::vector<double> scratch_;
};

}  // namespace dovetail::planners
