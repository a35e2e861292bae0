#include "planners/analytic_evaluator.hpp"

#include <memory>
#include <vector>

#include "models/analytic_backend.hpp"
#include "models/schedule_builder.hpp"

namespace dovetail::planners {

Evaluator analytic_evaluator(const Experiment& experiment) {
  return [&experiment, scratch = std::vector<double>()](const Plan& plan) mutable {
    return analytic_makespan(price(std::make_shared<const Schedule>(build_schedule(experiment, plan)), experiment),
                             scratch);
  };
}

}  // namespace dovetail::planners
