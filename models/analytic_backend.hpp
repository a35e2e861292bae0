// Predicts without contention: each op takes its own duration once its stream and dependencies allow.
#pragma once
#include "models/backend.hpp"

namespace dovetail {

class AnalyticBackend final : public Backend {
 public:
  std::string_view name() const override { return "analytic"; }
  Timeline run(const PricedSchedule& priced) override;
};

// The makespan only, in one pass and without building a timeline: the planners' evaluator.
// `finish` is scratch space, reused between calls.
Seconds analytic_makespan(const PricedSchedule& priced, std::vector<double>& finish);

}  // namespace dovetail
