// SPDX-License-Identifier: Apache-2.0
// The results of a sweep as JSON lines: the first says what sweep it is, each of the others is a cell ("cell": number
// first). While the sweep runs, cells stand in the order in which they were finished; at the end they are sorted.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sweep/sweep_line.hpp"

namespace dovetail::bench {

// The place of each cell's line, in one file or several files of the same sweep.
class CellIndex {
 public:
  // `header`: the first line of these files. Throws InputError where it is that of no sweep.
  explicit CellIndex(nlohmann::ordered_json header);

  // Adds a file, up to its last whole line, and returns the bytes of its whole lines. Throws InputError at the line
  // that is wrong: the first one where the file is of another sweep, any that is no cell of this one, or a second one
  // of a cell that says something else.
  std::int64_t add(const std::string& path);

  bool has(std::int64_t cell) const { return places_[static_cast<std::size_t>(cell)].file >= 0; }
  std::int64_t count() const { return count_; }
  std::int64_t cells() const { return shape_.cells; }

  // Throws InputError with the first reason where every cell that is there was refused.
  void require_a_result() const;

  // The first cell that a fault of this program ended, and how; empty: there is none.
  const std::string& bug() const { return bug_; }

  // The lines there are, by cell, without their line ends.
  void for_each(const std::function<void(std::string_view line)>& use) const;

 private:
  struct Place {
    std::int64_t offset = 0;
    int length = 0, file = -1;
  };
  void add_line(const std::string& line, Place place, long number);
  std::string line_at(const Place& place) const;

  nlohmann::ordered_json header_;
  SweepShape shape_;
  std::vector<Place> places_;
  std::vector<std::string> files_;
  std::int64_t count_ = 0, refused_ = 0;
  CellLine first_refusal_;
  std::string bug_;
};

// The first line of a sweep's file, checked. Throws InputError.
nlohmann::ordered_json read_sweep_header(const std::string& path);

}  // namespace dovetail::bench
