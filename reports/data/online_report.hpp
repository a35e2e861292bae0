// SPDX-License-Identifier: Apache-2.0
// Planning over a trace as a table for a terminal, as the public file data/schemas/online_run.schema.json, as CSV with
// a row for each step, and as a page with a plot of choices and cumulative regret.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/online_run.hpp"

namespace dovetail::reports {

inline constexpr const char* online_schema_version = "1.0";

// The least time of a step under any strategy.
Seconds best_time(const OnlineStep& step);

// Time of all steps from `first` on over that of the best strategy of each, minus 1.
double regret(const OnlineRun& run, std::size_t first = 0);
// The same of one strategy taken in every step.
double regret_of(const OnlineRun& run, std::size_t strategy);
// After each step: time lost so far over the time that the best strategies took so far.
std::vector<double> cumulative_regret(const OnlineRun& run);
// The first of the last 300 steps, or of the second half if there are fewer than 600.
std::size_t last_part(const OnlineRun& run);

nlohmann::ordered_json to_json(const OnlineRun& run);
void write_csv(std::ostream& out, const OnlineRun& run);
// `steps`: lists each step too.
void write_table(std::ostream& out, const OnlineRun& run, bool colour, bool steps);
void write_html(std::ostream& out, const OnlineRun& run);

}  // namespace dovetail::reports
