// SPDX-License-Identifier: Apache-2.0
#include "reports/data/measured_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "reports/text/csv_cells.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::reports {

std::string signed_percent(std::optional<double> share) {
  return share ? fmt::format("{:+.1f}", 100 * *share) : "-";
}

std::string percent_of(std::optional<double> share) {
  return share ? fixed(100 * *share, 1) + " %" : "-";
}

std::string signed_percent_of(std::optional<double> share) {
  return share ? signed_percent(share) + " %" : "-";
}

std::string count_of(int some, int all) {
  return all == 0 ? "-" : fmt::format("{} of {}", some, all);
}

std::string yes_or_no(std::optional<bool> value) {
  if (!value) return "-";
  return *value ? "yes" : "no";
}

void DrawsText::add(const MeasuredTime& time) {
  if (!time.range) return;
  const std::size_t draws = time.range->draws.size();
  least_ = most_ == 0 ? draws : std::min(least_, draws);
  most_ = std::max(most_, draws);
}

std::string DrawsText::text() const {
  if (most_ == 0) return "";
  return least_ == most_ ? fmt::format("{} draws", most_) : fmt::format("{} to {} draws", least_, most_);
}

void write_source(std::ostream& out, const MeasuredSource& source, bool colour) {
  out << inked(wrapped(fmt::format("{}: {}", printable(source.id), printable(source.title)), measured_width, 2),
               Ink::Bold, colour)
      << '\n'
      << wrapped("  " + printable(source.source), measured_width, 2) << "\n\n";
}

void write_sentences(std::ostream& out, const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) out << wrapped("  - " + printable(sentence), measured_width, 4) << '\n';
}

std::string range_csv(const MeasuredTime& time) {
  const auto end = [&](Seconds at) { return time.range ? csv_number(at.value()) : ""; };
  const auto holds = range_holds(time);
  return fmt::format("{},{},{},{}", end(range_low(time)), end(range_high(time)),
                     time.range ? time.range->draws.size() : 0, holds ? yes_or_no(holds) : "");
}

}  // namespace dovetail::reports
