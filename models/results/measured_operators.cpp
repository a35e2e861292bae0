// SPDX-License-Identifier: Apache-2.0
#include "models/results/measured_operators.hpp"

#include <algorithm>
#include <utility>

namespace dovetail {
namespace {

// The summary of those operators that are wanted.
template <class Wanted>
OperatorsSummary summary_of(std::string source, std::span<const OperatorsTable> tables, const Wanted& wanted) {
  std::vector<const MeasuredTime*> times;
  bool independent = true;
  for (const OperatorsTable& table : tables)
    for (const MeasuredOperator& each : table.operators)
      if (wanted(table, each)) {
        times.push_back(&each);
        independent = independent && table.independent;
      }
  return {summarise_times(times), std::move(source), "", independent};
}

}  // namespace

std::vector<OperatorsSummary> summarise_operators(std::span<const OperatorsTable> tables) {
  const auto all = [](const OperatorsTable&, const MeasuredOperator&) { return true; };
  const auto independent = [](const OperatorsTable& table, const MeasuredOperator&) { return table.independent; };
  std::vector<OperatorsSummary> summaries;
  for (const OperatorsTable& table : tables) summaries.push_back(summary_of(table.id, {&table, 1}, all));
  if (tables.size() < 2) return summaries;
  summaries.push_back(summary_of("all", tables, all));
  if (!std::ranges::all_of(tables, &OperatorsTable::independent))
    summaries.push_back(summary_of("independent", tables, independent));
  return summaries;
}

std::vector<OperatorsSummary> summarise_kernels(const OperatorsTable& table) {
  std::vector<OperatorsSummary> summaries;
  for (const MeasuredOperator& first : table.operators) {
    if (std::ranges::find(summaries, first.kernel, &OperatorsSummary::kernel) != summaries.end()) continue;
    const auto same = [&](const OperatorsTable&, const MeasuredOperator& each) { return each.kernel == first.kernel; };
    summaries.push_back(summary_of(table.id, {&table, 1}, same));
    summaries.back().kernel = first.kernel;
  }
  return summaries;
}

}  // namespace dovetail
