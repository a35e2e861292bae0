// SPDX-License-Identifier: Apache-2.0
#include "models/results/reproduction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dovetail {
namespace {

const double* number_in(const std::optional<TableValue>& value) {
  return value ? std::get_if<double>(&*value) : nullptr;
}

bool meets(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const std::optional<double> off = error(value);
  switch (value.target.kind) {
    case TargetKind::Shown:
      return true;
    case TargetKind::Equal:
      return value.published == value.ours || (off && std::abs(*off) < 1e-12);
    case TargetKind::Relative:
    case TargetKind::Absolute:
      return off && std::abs(*off) <= value.target.bound;
    case TargetKind::AtMost:
      return ours && *ours <= value.target.bound;
    case TargetKind::AtLeast:
      return ours && *ours >= value.target.bound;
  }
  return false;
}

std::string paper_of(const ReproducedTable& table) {
  return table.source.substr(0, table.source.find(" ("));
}

// None where a value says nothing about the model.
std::optional<double> relative_error(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const double* published = number_in(value.published);
  if (value.given || !value.fitted.empty() || !ours || !published || *published == 0) return std::nullopt;
  return std::abs(*ours / *published - 1);
}

PaperSummary summary_of(const std::string& paper, const std::vector<const ReproducedTable*>& tables) {
  PaperSummary summary;
  summary.paper = paper;
  std::vector<double> errors;
  for (const ReproducedTable* table : tables) {
    summary.unanswered += static_cast<int>(table->unanswered.size());
    for (const ReproducedValue& value : table->values) {
      const Verdict v = verdict(value);
      ++(v == Verdict::Shown ? summary.shown : summary.targets);
      if (v == Verdict::Miss) ++summary.missed;
      if (v == Verdict::Pass)
        ++(value.given ? summary.given : value.fitted.empty() ? summary.predicted : summary.fitted);
      if (const auto off = relative_error(value)) errors.push_back(*off);
    }
  }
  if (errors.empty()) return summary;
  std::ranges::sort(errors);
  const std::size_t half = errors.size() / 2;
  summary.mean_error = std::reduce(errors.begin(), errors.end()) / static_cast<double>(errors.size());
  summary.median_error = errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  return summary;
}

}  // namespace

std::vector<PaperSummary> summarise(const Reproduction& reproduction) {
  std::vector<std::pair<std::string, std::vector<const ReproducedTable*>>> papers;
  std::vector<const ReproducedTable*> all;
  for (const ReproducedTable& table : reproduction.tables) {
    const std::string paper = paper_of(table);
    auto found = std::ranges::find(papers, paper, [](const auto& p) { return p.first; });
    if (found == papers.end()) found = papers.insert(papers.end(), {paper, {}});
    found->second.push_back(&table);
    all.push_back(&table);
  }
  std::vector<PaperSummary> summaries;
  for (const auto& [paper, tables] : papers) summaries.push_back(summary_of(paper, tables));
  if (papers.size() > 1) summaries.push_back(summary_of("all", all));
  return summaries;
}

std::optional<double> error(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const double* published = number_in(value.published);
  if (!ours || !published) return std::nullopt;
  if (value.target.kind == TargetKind::Absolute) return *ours - *published;
  if (*published == 0) return std::nullopt;
  return *ours / *published - 1;
}

Verdict verdict(const ReproducedValue& value) {
  if (value.target.kind == TargetKind::Shown) return Verdict::Shown;
  return meets(value) ? Verdict::Pass : Verdict::Miss;
}

int count(const ReproducedTable& table, Verdict wanted) {
  return static_cast<int>(
      std::ranges::count_if(table.values, [&](const ReproducedValue& v) { return verdict(v) == wanted; }));
}

}  // namespace dovetail
