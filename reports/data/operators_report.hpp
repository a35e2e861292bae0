// SPDX-License-Identifier: Apache-2.0
// Measured operators beside prices of them, as a part of a reproduction: text, JSON, comma-separated values and cells
// for a page.
#pragma once
#include <array>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/results/measured_operators.hpp"

namespace dovetail::reports {

using OperatorsTables = std::span<const OperatorsTable>;

nlohmann::ordered_json operators_json(OperatorsTables tables);
nlohmann::ordered_json operators_summary_json(OperatorsTables tables);
void write_operators_csv(std::ostream& out, OperatorsTables tables);  // a line for each operator
void write_operators_table(std::ostream& out, OperatorsTables tables, bool colour);
void write_operators_html(std::ostream& out, OperatorsTables tables);  // sections of a page

// A source's or a kernel's summary and an operator as people read them: a heading for each column but the first, which
// is the name, and the cells.
inline constexpr std::array operators_summary_headings{"\noperators", "mean\n|error|",  "median\n|error|",
                                                       "mean\nerror", "in 90 %\nrange", "\nindependent"};
std::vector<std::string> cells_of(const OperatorsSummary& summary);
inline constexpr std::array operator_headings{"\nmeasured", "\npriced", "error\n%", "90 %\nrange", "holds\nit"};
std::vector<std::string> cells_of(const MeasuredOperator& one);

// All operators of a small source, else the ten whose prices are furthest off, by their ratio.
std::vector<const MeasuredOperator*> shown_operators(const OperatorsTable& table);
std::string heading_of_shown(const OperatorsTable& table);

// Sentences that explain the columns.
std::vector<std::string> operators_legend(OperatorsTables tables);

}  // namespace dovetail::reports
