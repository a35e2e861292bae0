// SPDX-License-Identifier: Apache-2.0
#include "reports/text/window.hpp"

#include <algorithm>

#include "models/schedule/op_table.hpp"

namespace dovetail::reports {
namespace {

bool belongs_to_a_layer(const Op& op) {
  return entry_of(op.kind).part != OpPart::StepEnd;
}

}  // namespace

Interval representative_window(const Schedule& schedule, const Timeline& timeline) {
  int last_layer = 0;
  Interval whole, window;
  for (const OpId i : schedule.ops.ids()) {
    last_layer = std::max<int>(last_layer, schedule.ops[i].layer);
    whole.finish = std::max(whole.finish, timeline.ops[i].finish);
  }
  const bool pipelined = schedule.classes.size() > 1 || schedule.micro_batches > 1;
  if (last_layer < 2 || pipelined) return whole;
  window.start = whole.finish;
  for (const OpId i : schedule.ops.ids()) {
    const Op& op = schedule.ops[i];
    if (!belongs_to_a_layer(op)) continue;
    if (op.pass() == Phase::Forward && op.layer == last_layer)
      window.start = std::min(window.start, timeline.ops[i].start);
    if (op.layer >= last_layer - (op.pass() == Phase::Forward ? 0 : 1))
      window.finish = std::max(window.finish, timeline.ops[i].finish);
  }
  return window;
}

}  // namespace dovetail::reports
