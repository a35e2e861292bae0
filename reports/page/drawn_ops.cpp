// SPDX-License-Identifier: Apache-2.0
#include "reports/page/drawn_ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/schedule/op_table.hpp"

namespace dovetail::reports {
namespace {

bool ends_step(const Op& op) {
  return entry_of(op.kind).part == OpPart::StepEnd;
}

// A third each of the first, the middle and the last ones; of two the first and the last, of one the first.
std::vector<MicroBatches> spread(int count, int all) {
  const int last = count / 3 + (count == 2 ? 1 : 0), middle = count / 3, first = count - last - middle;
  std::vector<MicroBatches> list{{0, first - 1}};
  const int between = first + (all - first - middle - last) / 2;
  if (middle > 0) list.push_back({between, between + middle - 1});
  if (last > 0) list.push_back({all - last, all - 1});
  return list;
}

}  // namespace

DrawnOps drawn_ops(const Schedule& s, std::size_t most) {
  DrawnOps drawn;
  const auto at_end = static_cast<std::size_t>(std::ranges::count_if(s.ops, ends_step));
  const auto all = static_cast<std::size_t>(s.micro_batches);
  const std::size_t each = std::max<std::size_t>(1, (s.ops.size() - at_end) / all);
  if (s.ops.size() > most) {
    if (at_end + each > most) return drawn;
    drawn.of_step = spread(static_cast<int>((most - at_end) / each), s.micro_batches);
  }
  const auto is_drawn = [&](const Op& op) {
    return drawn.of_step.empty() || ends_step(op) || std::ranges::any_of(drawn.of_step, [&](const MicroBatches& of) {
             return of.first <= op.micro_batch && op.micro_batch <= of.last;
           });
  };
  for (const OpId i : s.ops.ids())
    if (is_drawn(s.ops[i])) drawn.ops.push_back(i);
  return drawn;
}

std::string drawn_text(const DrawnOps& drawn, const Schedule& s) {
  if (drawn.ops.empty()) return "Too long to be drawn; --trace FILE writes all operations.";
  if (drawn.of_step.empty()) return "";
  std::vector<std::string> spans;
  for (const MicroBatches& of : drawn.of_step)
    spans.push_back(of.first == of.last ? fmt::format("{}", of.first) : fmt::format("{} to {}", of.first, of.last));
  const std::string last = spans.back();
  spans.pop_back();
  return fmt::format(
      "Drawn are micro-batches {}{}{} of {}, counted from 0, and the end of the step; --trace FILE writes all {} "
      "operations.",
      fmt::join(spans, ", "), spans.empty() ? "" : " and ", last, s.micro_batches, s.ops.size());
}

}  // namespace dovetail::reports
