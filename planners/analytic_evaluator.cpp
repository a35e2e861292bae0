#include "planners/analytic_evaluator.hpp"

#include <vector>

#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"

namespace dovetail::planners {

Evaluator analytic_evaluator(const Experiment& experiment) {
  return [&experiment, scratch = std::vector<double>()](const Plan& plan) mutable {
    return analytic_makespan(price_plan(experiment, plan), scratch);
  };
}

Bytes peak_memory(const Experiment& experiment, const Plan& plan) {
  const PricedSchedule priced = price_plan(experiment, plan);
  return memory_use(*priced.schedule, AnalyticBackend().run(priced), Arenas::LeftOut).peak;
}

}  // namespace dovetail::planners
