// SPDX-License-Identifier: Apache-2.0
// One row per result: the derived numbers that the table, CSV, JSON and the page share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::reports {

struct SummaryRow {
  const SystemResult* result = nullptr;      // in the report that was summarized
  std::optional<Seconds> forward, backward;  // none where the two phases interleave
  std::optional<double> speedup;             // over the first result of the same kind
  std::optional<double> over_bound;          // step time / lower bound
  bool of_plan = false;                      // / the plan's bound, where no lower one is known
  const SystemResult* expected = nullptr;    // measured rows: the modelled result of the same system, if any
  std::optional<double> measured_ratio;      // measured / modelled step time; both must be on the same clock
};

// The row of one of the report's results, or of another beside those.
SummaryRow summarize(const Report& report, const SystemResult& result);
// In the order of the report. The report must outlive the rows.
std::vector<SummaryRow> summarize(const Report& report);

// "4", or "1..4" where the degree differs between layers.
std::string backward_degrees(const Plan& plan);

}  // namespace dovetail::reports
