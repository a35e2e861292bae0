// SPDX-License-Identifier: Apache-2.0
// A timeline as text: one line per stream, one letter per kind of op.
#pragma once
#include <optional>
#include <string>

#include "models/time/timeline.hpp"

namespace dovetail::reports {

struct GanttOptions {
  int columns = 96;                // characters that the window is divided into
  std::optional<Interval> window;  // none: the whole step
};

// A block starts with the letter of its kind (small in the backward pass), its chunk where there is room, and
// goes on with '-'; '.' is idle. A character shows what ran for most of its time. Below: the letters used.
std::string gantt_text(const Schedule& schedule, const Timeline& timeline, const GanttOptions& options = {});

}  // namespace dovetail::reports
