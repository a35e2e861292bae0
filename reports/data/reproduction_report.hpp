// SPDX-License-Identifier: Apache-2.0
// Published tables, measured steps and measured operators beside ours: for a terminal, as the public file
// data/schemas/reproduction.schema.json, as comma-separated values, and as a page.
#pragma once
#include <array>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/reproduction.hpp"

namespace dovetail::reports {

inline constexpr const char* reproduction_schema_version = "2.1";

nlohmann::ordered_json to_json(const Reproduction& reproduction);
void write_json(std::ostream& out, const Reproduction& reproduction);
void write_csv(std::ostream& out, const Reproduction& reproduction);  // of the one kind that there is
void write_table(std::ostream& out, const Reproduction& reproduction, bool colour);
void write_html(std::ostream& out, const Reproduction& reproduction);

// The cells of a row as people read them.
struct ReproducedCells {
  std::string published, ours, error, allowed;
};
ReproducedCells cells_of(const ReproducedValue& value);
// A line for each GPU that has measured a row: "measured on H100, links held: 11.2 (both products)".
std::vector<std::string> describe_measured(const ReproducedValue& value);
// The rows that one GPU can settle, whether it has, and what that says. Empty: none.
std::vector<std::string> describe_settled(const ReproducedTable& table);
inline constexpr auto settled_legend =
    "kernels and copies are real there, exchanges last their modelled times: a GPU other than the authors' shows "
    "whether a mechanism has the right size, not the number of a row";
// "12 of 14 predictions met, and 5 of 6 values that share a constant fitted to another table"
std::string describe_verdicts(const Reproduction& reproduction);

// The summaries as people read them: a heading for each column, and the cells of each row.
inline constexpr std::array summary_headings{"summary",  "predicted", "shares",      "fitted",     "given",
                                             "identity", "repeated",  "within 15 %", "mean error", "median error"};
inline constexpr std::array shared_headings{"shared constant", "value",       "met with",
                                            "mean error",      "met without", "mean error without"};
std::vector<std::string> cells_of(const PaperSummary& summary);
std::vector<std::string> cells_of(const SharedSummary& summary);
inline constexpr std::array summary_legend{
    "A value is met within 15 % of an amount or half its last digit, within .03 or 15 % of the gain of a speed-up, "
    "within 3 points or 15 % of a percentage, and by the same words. One rule holds for all values.",
    "predicted: ours rests on nothing that was fitted; shares: on a constant that was fitted to another table; "
    "fitted: to this one; given: on numbers of the paper alone; identity: it must hold whatever the costs are; "
    "repeated: another reading of a number that has a row already. The last four say little of the model.",
    "Within 15 % and the errors are of numbers that are predicted or share a constant. Gains count as the speed-ups "
    "that they are."};
// Each shared constant, where it stands, and what would be in its place without it.
std::vector<std::string> describe_shared(const Reproduction& reproduction);

}  // namespace dovetail::reports
