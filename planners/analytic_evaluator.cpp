#include "planners/analytic_evaluator.hpp"

#include <memory>
#include <vector>

#include "models/analytic_backend.hpp"
#include "models/memory.hpp"
#include "models/schedule_builder.hpp"

namespace dovetail::planners {
namespace {

PricedSchedule priced_schedule(const Experiment& experiment, const Plan& plan) {
  return price(std::make_shared<const Schedule>(build_schedule(experiment, plan)), experiment);
}

}  // namespace

Evaluator analytic_evaluator(const Experiment& experiment) {
  return [&experiment, scratch = std::vector<double>()](const Plan& plan) mutable {
    return analytic_makespan(priced_schedule(experiment, plan), scratch);
  };
}

Bytes peak_memory(const Experiment& experiment, const Plan& plan) {
  const PricedSchedule priced = priced_schedule(experiment, plan);
  return memory_use(*priced.schedule, AnalyticBackend().run(priced), Arenas::LeftOut).peak;
}

}  // namespace dovetail::planners
