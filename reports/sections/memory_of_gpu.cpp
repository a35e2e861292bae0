// SPDX-License-Identifier: Apache-2.0
// The memory of the fullest GPU at its peak, and with addresses that are planned ahead.
#include <fmt/format.h>

#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

SectionContent gpu_content(const Report& report, Detail detail) {
  SectionContent content;
  const SystemResult* best = best_of(report);
  const bool one = report.tuning || report.results.size() == 1;
  if (!in_depth(report, detail) || !one || best == nullptr || best->memory.arena <= Bytes(0)) return content;
  const MemoryUse& memory = best->memory;
  std::string text = fmt::format(
      "{} GiB at the peak, {} of them weights, gradients and optimizer states; {} with addresses planned ahead",
      in_gib(memory.peak, 2), in_gib(memory.persistent, 2), in_gib(memory.arena, 2));
  if (memory.pinned > Bytes(0)) text += fmt::format("; {} of pinned host memory", in_gib(memory.pinned, 2));
  content.lines.push_back({std::move(text)});
  return content;
}

}  // namespace

Section memory_of_gpu() {
  return {"memory of one GPU", Titled::Always, "", gpu_content};
}

}  // namespace dovetail::reports
