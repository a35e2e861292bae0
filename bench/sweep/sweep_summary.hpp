// SPDX-License-Identifier: Apache-2.0
// The summary of a finished sweep: which system is fastest where, and by how much.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sweep/sweep_file.hpp"

namespace dovetail::bench {

// One system over all points at which it and another one fit the memory. Ratio: time of the fastest other system over
// its own, so above 1 where it is the fastest.
struct SystemSummary {
  std::string system;
  std::int64_t fits = 0, too_large = 0, refused = 0, fastest = 0;  // points
  std::vector<double> ratios;                                      // ascending
  std::string best, worst;                                         // points with the largest and the smallest ratio
};

struct SweepSummary {
  std::vector<SystemSummary> systems;
  std::int64_t points = 0;
  std::vector<std::string> idle_axes;  // that change no result
  std::string first_refusal;           // of any cell; empty: none
  std::int64_t beyond_peak = 0;        // cells whose MFU no device can reach
  std::string first_beyond_peak;       // the first of them
  std::vector<std::string> notes;      // of the sweep's header: see hardware_notes.hpp
};

struct SummaryAxis {
  std::string name;
  std::int64_t values = 1;
};

// Reads the lines one after another, of all cells; `systems` stand at every point, in the order of the cells, the last
// axis varies fastest. Keeps 8 bytes of a cell.
SweepSummary summarize(const CellIndex& index, const std::vector<std::string>& systems,
                       const std::vector<SummaryAxis>& axes);

void write_table(std::ostream& out, const SweepSummary& summary, bool colour);

// A line per cell, a column per key of the axes and per result.
void write_csv(std::ostream& out, const CellIndex& index);

}  // namespace dovetail::bench
