// SPDX-License-Identifier: Apache-2.0
#include "models/results/reproduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace dovetail {
namespace {

constexpr double percent = 100;
constexpr double near = .15;        // of amounts, gains and savings
constexpr double least_gain = .03;  // that may be missed of any speed-up
constexpr double rounding = 1e-9;

const double* number_in(const std::optional<TableValue>& value) {
  return value ? std::get_if<double>(&*value) : nullptr;
}

// Half a unit of the last digit that a number is written with: what is published as 30.2 may be off by .05.
double half_digit(double number) {
  const std::string written = fmt::format("{}", std::abs(number));
  const std::size_t point = written.find('.');
  if (written.find('e') != std::string::npos || point == std::string::npos) return .5;
  return .5 * std::pow(.1, static_cast<double>(written.size() - point - 1));
}

// The number nearest to ours among those that are written as the published one.
double nearest(Measure measure, double published, double ours) {
  if (measure != Measure::Amount || published == 0) return published;
  const double half = half_digit(published);
  return std::clamp(ours, published - half, published + half);
}

// The ratio that a number stands for.
double as_ratio(Measure measure, double value) {
  if (measure == Measure::Gain) return 1 + value / percent;
  if (measure == Measure::Saving) return 1 - value / percent;
  return value;
}

bool bounded(Measure measure) {
  return measure == Measure::AtMost || measure == Measure::AtLeast;
}

bool meets(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const double* published = number_in(value.published);
  if (!ours || !published) return value.published == value.ours;
  const double limit = *allowed_error(value) + rounding;
  if (value.measure == Measure::AtMost) return *ours <= *published + limit;
  if (value.measure == Measure::AtLeast) return *ours >= *published - limit;
  return std::abs(*ours - *published) <= limit;
}

bool unfitted(const ReproducedValue& value) {
  return value.basis == Basis::Predicted || value.basis == Basis::Shares;
}

std::string paper_of(const ReproducedTable& table) {
  return table.source.substr(0, table.source.find(" ("));
}

void add(Score& score, bool met) {
  ++score.of;
  if (met) ++score.met;
}

std::optional<double> mean(std::span<const double> numbers) {
  if (numbers.empty()) return std::nullopt;
  return std::reduce(numbers.begin(), numbers.end()) / static_cast<double>(numbers.size());
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

PaperSummary summary_of(const std::string& paper, const std::vector<const ReproducedTable*>& tables) {
  PaperSummary summary;
  summary.paper = paper;
  std::vector<double> errors;
  for (const ReproducedTable* table : tables) {
    summary.apart = table->apart;
    summary.unanswered += static_cast<int>(table->unanswered.size());
    for (const ReproducedValue& value : table->values) {
      if (value.basis == Basis::Unpublished)
        ++summary.shown;
      else
        add(summary.by_basis[static_cast<std::size_t>(value.basis)], verdict(value) == Verdict::Pass);
      const std::optional<double> off = error(value);
      if (!unfitted(value) || !off) continue;
      errors.push_back(std::abs(*off));
      add(summary.near, errors.back() <= near);
    }
  }
  summary.mean_error = mean(errors);
  if (!errors.empty()) summary.median_error = median(std::move(errors));
  return summary;
}

// The values of one table that rest on this constant.
struct Resting {
  Score score;
  std::vector<double> errors;
};
void add_resting(const ReproducedTable& table, const std::string& constant, Resting& resting) {
  for (const ReproducedValue& value : table.values) {
    if (value.basis != Basis::Shares || std::ranges::find(value.constants, constant) == value.constants.end()) continue;
    add(resting.score, verdict(value) == Verdict::Pass);
    if (const auto off = error(value)) resting.errors.push_back(std::abs(*off));
  }
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
    if (!table.apart) all.push_back(&table);
  }
  std::vector<PaperSummary> summaries;
  for (const auto& [paper, tables] : papers) summaries.push_back(summary_of(paper, tables));
  if (std::ranges::count(summaries, false, &PaperSummary::apart) > 1) summaries.push_back(summary_of("all", all));
  return summaries;
}

std::vector<SharedSummary> summarise_shared(const Reproduction& reproduction) {
  std::vector<SharedSummary> summaries;
  std::vector<Resting> with, without;
  for (const ReproducedTable& table : reproduction.tables)
    for (const SharedConstant& constant : table.shared) {
      auto found = std::ranges::find(summaries, constant.name, [](const auto& s) { return s.constant.name; });
      if (found == summaries.end()) {
        found = summaries.insert(summaries.end(), SharedSummary{constant, {}, {}, {}, {}, {}});
        with.emplace_back();
        without.emplace_back();
      }
      found->users.push_back(table.id);
      const auto place = static_cast<std::size_t>(found - summaries.begin());
      add_resting(table, constant.name, with[place]);
      for (const TableWithout& other : reproduction.without)
        if (other.table.id == table.id && other.constant == constant.name)
          add_resting(other.table, constant.name, without[place]);
    }
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    summaries[i].with = with[i].score;
    summaries[i].without = without[i].score;
    summaries[i].mean_error = mean(with[i].errors);
    summaries[i].mean_error_without = mean(without[i].errors);
  }
  return summaries;
}

std::optional<double> allowed_error(const ReproducedValue& value) {
  const double* published = number_in(value.published);
  if (!value.published) return std::nullopt;
  if (!published || value.basis == Basis::Identity || bounded(value.measure)) return 0;
  const double size = std::abs(*published);
  switch (value.measure) {
    case Measure::Amount:
      return std::max(half_digit(size), near * size);
    case Measure::Speedup:
      return std::max(least_gain, near * std::abs(*published - 1));
    case Measure::Gain:
    case Measure::Saving:
    case Measure::Share:
      return std::max(percent * least_gain, near * size);
    case Measure::Choice:
    case Measure::AtMost:
    case Measure::AtLeast:
      break;
  }
  return 0;
}

std::optional<double> error(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const double* published = number_in(value.published);
  if (!ours || !published || bounded(value.measure)) return std::nullopt;
  const double base = as_ratio(value.measure, nearest(value.measure, *published, *ours));
  if (base == 0) return std::nullopt;
  return as_ratio(value.measure, *ours) / base - 1;
}

Verdict verdict(const ReproducedValue& value) {
  if (value.basis == Basis::Unpublished) return Verdict::Shown;
  return meets(value) ? Verdict::Pass : Verdict::Miss;
}

int count(const ReproducedTable& table, Verdict wanted) {
  return static_cast<int>(
      std::ranges::count_if(table.values, [&](const ReproducedValue& v) { return verdict(v) == wanted; }));
}

}  // namespace dovetail
