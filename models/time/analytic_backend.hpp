// SPDX-License-Identifier: Apache-2.0
// Predicts in one pass: each op takes its own duration once its stream and dependencies allow. Only where ops of
// several streams may meet on a resource does it follow their sharing in time (fair_sharing.hpp).
#pragma once
#include "models/time/backend.hpp"

namespace dovetail {

class AnalyticBackend final : public Backend {
 public:
  std::string_view name() const override { return "analytic"; }
  Timeline run(const PricedSchedule& priced) override;
};

// The makespan only, without building a timeline where one pass will do: the planners' evaluator.
// `finish` is scratch space, reused between calls.
Seconds analytic_makespan(const PricedSchedule& priced, std::vector<double>& finish);

}  // namespace dovetail
