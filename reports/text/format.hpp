// SPDX-License-Identifier: Apache-2.0
// Numbers and names as people read them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/units.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::reports {

inline constexpr double gib = 1024.0 * 1024 * 1024;

// A text from a file, safe on a terminal: control characters become '?', more than `width` characters end in "..".
std::string printable(std::string_view text, std::size_t width = 10000);

std::string replaced(std::string text, std::string_view from, std::string_view to);  // every occurrence
std::string escaped(const std::string& text);                                        // for HTML text

// Characters shown, counting a UTF-8 sequence as one.
std::size_t display_width(std::string_view text);

// Decimals that give about four digits to the largest of the values.
int decimals_for(const std::vector<double>& values);

// "-" for what is missing or not finite.
std::string fixed(std::optional<double> value, int decimals);

// Three digits of a figure that is not known better: 22505 is "22500".
std::string significant(double value);

std::string percent(double share);  // 0.0123: "1.23"

// "12.3 us", "4.56 ms", "1.23 s": three digits and a fitting unit.
std::string duration(Seconds time);
std::string bytes(Bytes amount);  // "512 B", "1.50 MiB", "48.0 GiB"

// Lines of at most `width` characters, broken at spaces; continued lines start with `indent` spaces.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// "48 layers, SAMPLES, top 8 of 128 experts, dropless, bf16, one training step".
std::string workload_text(const Experiment& experiment, std::string_view samples);
// "whole model; costs dgx-h100": what is priced, where that is not as usual, and by what.
std::string costs_text(const Experiment& experiment);

// "8x7b on testbed, 6 nodes x 8 GPUs ...": what was asked, in three lines without line ends.
std::vector<std::string> experiment_lines(const Experiment& experiment);

std::string change(double ratio);                           // "3.4 % more" or "3.4 % less"
std::string listed(const std::vector<std::string>& items);  // "a, b and c"

}  // namespace dovetail::reports
