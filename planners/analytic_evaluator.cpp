#include "planners/analytic_evaluator.hpp"

#include <vector>

#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/step_prediction.hpp"

namespace dovetail::planners {

Evaluator analytic_evaluator(const Experiment& experiment) {
  return [&experiment, scratch = std::vector<double>()](const Plan& plan) mutable {
    if (plan.micro_batches > 1) return StepPrediction(experiment, plan).time();
    return analytic_makespan(price_plan(experiment, plan), scratch);
  };
}

Bytes peak_memory(const Experiment& experiment, const Plan& plan) {
  return StepPrediction(experiment, plan).peak();
}

}  // namespace dovetail::planners
