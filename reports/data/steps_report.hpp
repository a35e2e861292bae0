// SPDX-License-Identifier: Apache-2.0
// Measured steps beside predictions of them, as a part of a reproduction: text, JSON, comma-separated values and cells
// for a page.
#pragma once
#include <array>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/results/measured_steps.hpp"

namespace dovetail::reports {

using StepsTables = std::span<const StepsTable>;

nlohmann::ordered_json steps_json(StepsTables tables);
nlohmann::ordered_json steps_summary_json(StepsTables tables);
void write_steps_csv(std::ostream& out, StepsTables tables);  // a line for each step
void write_steps_table(std::ostream& out, StepsTables tables, bool colour);
void write_steps_html(std::ostream& out, StepsTables tables);  // sections of a page

// A step, a source's summary and a cost as people read them: a heading for each column but the first, which is the
// name, and the cells.
inline constexpr std::array step_headings{"measured\nms",        "predicted\nms", "error\n%",
                                          "90 %\nrange ms",      "holds\nit",     "measured\npeak GiB",
                                          "predicted\npeak GiB", "error\n%"};
std::vector<std::string> cells_of(const MeasuredStep& step);
inline constexpr std::array steps_summary_headings{"\nsteps",
                                                   "not\nstated",
                                                   "mean\n|error|",
                                                   "median\n|error|",
                                                   "mean\nerror",
                                                   "pairs in\nright order",
                                                   "rank cor-\nrelation",
                                                   "in 90 %\nrange",
                                                   "peak, mean\n|error|"};
std::vector<std::string> cells_of(const StepsSummary& summary);
inline constexpr std::array cost_headings{"known\nfrom", "within\nx", "among the\ntop of",
                                          "step, if the\ncost is low, %", "\nhigh, %"};
std::vector<std::string> cells_of(const InfluentialCost& cost, const StepsTable& table);

// Sentences that explain the columns.
std::vector<std::string> steps_legend(StepsTables tables);

}  // namespace dovetail::reports
