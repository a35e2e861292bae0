// SPDX-License-Identifier: Apache-2.0
// Cells that several sections share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/results/result.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {

// The fastest result, or the first where none fits; null: there is none.
const SystemResult* best_of(const Report& report);

bool is_measured(const SystemResult& result);

// A run's measured result is not faster than its prediction: so many results are of the kind of the first.
std::ptrdiff_t compared(const Report& report);

std::string name_of(const SystemResult& result);  // of at most 24 characters

// The decimals of times in ms: one fewer where results say how sure they are, since no step is then known to four
// digits.
int ms_decimals(const Report& report);
bool has_ranges(const Report& report);
std::string in_ms(Seconds time, int decimals);
std::string in_ms(std::optional<Seconds> time, int decimals);
std::string range_text(const SystemResult& result, int decimals);  // "7.2 - 10.0" ms, or "-"
std::string in_gib(Bytes amount, int decimals = 1);

// A layout in columns, from pp to ZeRO, and in words.
const std::vector<std::string>& layout_headings();
std::vector<std::string> layout_cells(const SystemResult& result);
std::string layout_text(const SystemResult& result);

// "24800 GPU-hours for 1e12 tokens and 17.4 MWh, at 700 W for each GPU".
std::string price_of_training(const SystemResult& result, double gpu_watts);

// The lists one after the other.
std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& rest);

}  // namespace dovetail::reports
