// SPDX-License-Identifier: Apache-2.0
// Published tables, measured steps and measured operators beside ours: for a terminal, as the public file
// data/schemas/reproduction.schema.json, as comma-separated values, and as a page.
#pragma once
#include <array>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/reproduction.hpp"

namespace dovetail::reports {

inline constexpr const char* reproduction_schema_version = "1.3";

nlohmann::ordered_json to_json(const Reproduction& reproduction);
void write_json(std::ostream& out, const Reproduction& reproduction);
void write_csv(std::ostream& out, const Reproduction& reproduction);  // of the one kind that there is
void write_table(std::ostream& out, const Reproduction& reproduction, bool colour);
void write_html(std::ostream& out, const Reproduction& reproduction);

// The cells of a row as people read them.
struct ReproducedCells {
  std::string published, ours, error, target;
};
ReproducedCells cells_of(const ReproducedValue& value);
// "12 of 14 targets met, 6 values shown without one"
std::string describe_verdicts(const Reproduction& reproduction);

// The summary by paper as people read it: a heading for each column, and the cells of each paper.
inline constexpr std::array summary_headings{"targets", "predicted",  "fitted",     "given",       "missed",
                                             "shown",   "unanswered", "mean error", "median error"};
std::vector<std::string> cells_of(const PaperSummary& summary);
inline constexpr const char* summary_legend =
    "predicted: targets met without a constant fitted to their own table; fitted: with one; given: by "
    "arithmetic on numbers of the paper. Errors are |ours / "
    "published - 1| of all numbers that are neither fitted nor given, with a target or not; gains of few percent make "
    "their mean large.";
// Constants of several tables: "contention, c = 0.58 in FILE: fitted to fsmoe-table5, used by fsmoe-fig7 and
// fsmoe-fig8".
std::vector<std::string> describe_shared(const Reproduction& reproduction);

}  // namespace dovetail::reports
