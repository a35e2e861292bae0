// SPDX-License-Identifier: Apache-2.0
// How long the steps of one question take and what they hold, as the analytic model sees them: the one place that
// planners and searches ask.
//
// An estimate puts a step together from a layer's times (step_estimate.hpp), in microseconds once the kinds of its
// stages are known. A prediction builds the layers of some micro-batches (step_prediction.hpp), once for each plan. The
// experiments of one question differ in their groups, their batch and in whether ranks repeat tokens, and in nothing
// else.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planners/steps/step_estimate.hpp"
#include "planners/steps/step_prediction.hpp"

namespace dovetail::planners {

// A plan whose estimate is slower than another's by more than this factor is taken as slower: 25 random layouts each of
// two models were estimated within 6 % of the whole step, and most within 2 %.
inline constexpr double clearly_slower = 1.05;

enum class Detail { Quick, Whole };  // an estimate without the order of units, which bounds the time alone, or with it

struct PredictedStep {
  Seconds time;
  std::vector<Bytes> stage_peaks;  // of each class of ranks, which are stages
  Metrics metrics;
  std::optional<Seconds> lower_bound = {};  // of an exact one (StepPrediction::exact)
  Bytes peak() const;                       // of the fullest
};

// Not for several threads at once.
class StepModel {
 public:
  // Whether steps of this experiment are worth an estimate. They are not where a prediction is quick, with few layers x
  // samples, nor in inference and on a described network.
  static bool is_worth_estimating(const Experiment& experiment);

  // None where the plan is refused and where a cost is missing.
  std::optional<StepEstimate> estimate(const Experiment& experiment, const Plan& plan, Detail detail = Detail::Whole);

  // All throw InputError where the plan is refused or a cost is missing.
  Seconds time(const Experiment& experiment, const Plan& plan);
  Bytes peak(const Experiment& experiment, const Plan& plan);  // device memory of the fullest rank
  int built(const Experiment& experiment, const Plan& plan);   // micro-batches of the longest step built for the time
  const PredictedStep& predicted(const Experiment& experiment, const Plan& plan);
  // As the whole step has it, to rounding. The experiment has no events and no described network.
  PredictedStep exact(const Experiment& experiment, const Plan& plan);
  // The prediction itself, made again unless it is the last one.
  const StepPrediction& step(const Experiment& experiment, const Plan& plan);
  void forget_last() { last_.reset(); }  // frees its memory

  long estimated() const { return estimated_; }
  StageCostTable& stage_costs() { return costs_; }
  long looked_at() const { return costs_.looked_at(); }  // kinds of stages that were built for estimates
  long predicted() const { return predicted_; }
  // The first reason why a plan that was to be estimated could not be built; empty: all could.
  const std::string& first_refusal() const { return first_refusal_; }

 private:
  using Key = std::vector<std::int64_t>;
  struct Known {
    std::optional<Seconds> time;
    std::optional<PredictedStep> whole;
    int built = 1;
  };
  static Key key_of(const Experiment& experiment, const Plan& plan);
  const StepPrediction& step(const Key& key, const Experiment& experiment, const Plan& plan);

  StageCostTable costs_;
  PipelineOrders orders_;
  std::map<Key, Known> known_;
  Key last_key_;
  std::optional<StepPrediction> last_;  // whose memory is often asked for next
  std::vector<double> scratch_;
  long estimated_ = 0, predicted_ = 0;
  std::string first_refusal_;
};

}  // namespace dovetail::planners
