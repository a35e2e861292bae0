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

// In the order of the report. The report must outlive the rows.
std::vector<SummaryRow> summarize(const Report& report);

// The fastest result that fits, among those of the first result's kind; null when none fits.
const SystemResult* fastest(const Report& report);

// With it all that fit and are not known to be slower: they take less than 1 % longer, or, where results have ranges,
// are slower in fewer than 19 of 20 draws of the costs. In the order of the report. Empty when none fits.
std::vector<const SystemResult*> tied_fastest(const Report& report);

// "4", or "1..4" where the degree differs between layers.
std::string backward_degrees(const Plan& plan);

}  // namespace dovetail::reports
