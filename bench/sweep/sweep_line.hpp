// SPDX-License-Identifier: Apache-2.0
// Checks of the lines of a sweep's file, all of each: a file may be damaged, of another version, or no sweep at all.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json/json_reader.hpp"

namespace dovetail::bench {

inline constexpr auto sweep_version = "1.2";  // of the file's format
inline constexpr auto sweep_kind = "sweep";
inline constexpr std::string_view a_bug = "this is a bug, please report it: ";  // begins the refusal of such a cell
inline constexpr std::int64_t shortest_cell_line = 40;                          // bytes

struct SweepShape {
  std::int64_t cells = 0;
  std::vector<std::string> systems;  // of the cells 0, 1, ... of every point
};

// The first line. Throws InputError.
SweepShape read_sweep_shape(const JsonReader& json);

struct CellLine {
  std::int64_t cell = 0;
  std::string refusal;  // empty: there are results
};

// Any other line. Throws InputError.
CellLine read_cell_line(const JsonReader& json, const SweepShape& shape);

}  // namespace dovetail::bench
