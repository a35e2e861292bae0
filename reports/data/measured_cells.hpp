// SPDX-License-Identifier: Apache-2.0
// The common part of tables of measured times, of steps and of operators.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/results/measured_time.hpp"

namespace dovetail::reports {

inline constexpr std::size_t measured_width = 118;  // of lines

std::string signed_percent(std::optional<double> share);  // "+1.2"
std::string percent_of(std::optional<double> share);      // "1.2 %"
std::string signed_percent_of(std::optional<double> share);
std::string count_of(int some, int all);           // "12 of 16"
std::string yes_or_no(std::optional<bool> value);  // "-": none

template <class Headings>
std::vector<std::string> with_first(std::string first, const Headings& rest) {
  std::vector<std::string> all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

// The number of draws behind ranges: "200 draws", or "20 to 200 draws"; empty: there are no ranges.
class DrawsText {
 public:
  void add(const MeasuredTime& time);
  std::string text() const;

 private:
  std::size_t least_ = 0, most_ = 0;
};

// The title and the source; notes, or other sentences, one below the other.
void write_source(std::ostream& out, const MeasuredSource& source, bool colour);
void write_sentences(std::ostream& out, const std::vector<std::string>& sentences);

// The columns low_s, high_s, draws and in_range of a line of comma-separated values.
std::string range_csv(const MeasuredTime& time);

}  // namespace dovetail::reports
