// SPDX-License-Identifier: Apache-2.0
#include "reports/text/link_use.hpp"

#include <algorithm>
#include <map>

namespace dovetail::reports {
namespace {

struct Traffic {
  Bytes bytes;
  std::vector<Interval> intervals;
};

Seconds union_of(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  Seconds total, end;
  for (const Interval& interval : intervals) {
    const Seconds start = std::max(interval.start, end);
    if (interval.finish > start) total += interval.finish - start;
    end = std::max(end, interval.finish);
  }
  return total;
}

}  // namespace

std::vector<LinkUse> link_use(const Experiment& experiment, const Schedule& schedule, const Timeline& timeline) {
  std::map<GroupKind, LinkKind> links;
  for (const auto& [name, kind] : group_kind_names)
    links[kind] =
        group_shape(schedule.groups, kind, experiment.cluster).crosses_nodes() ? LinkKind::Inter : LinkKind::Intra;
  std::map<std::pair<int, bool>, Traffic> traffic;  // by class, inter first
  for (const OpId i : schedule.ops.ids()) {
    const Op& op = schedule.ops[i];
    if (op.collective() == Collective::None) continue;
    const int rank_class = schedule.streams[op.stream].rank_class;
    const auto use = [&](LinkKind link, double share) {
      Traffic& sum = traffic[{rank_class, link == LinkKind::Intra}];
      sum.bytes += op.message() * share;
      sum.intervals.push_back(timeline.ops[i]);
    };
    const auto steps = schedule.steps_of(op);
    if (steps.empty()) use(links.at(op.group()), 1);
    for (const CollectiveStep& step : steps)
      if (step.kind != StepKind::Copy)
        use(crosses_nodes(step, ranks_per_node(schedule.groups, op.group(), experiment.cluster)) ? LinkKind::Inter
                                                                                                 : LinkKind::Intra,
            static_cast<double>(step.blocks()) / static_cast<double>(exchanged_blocks(steps)));
  }
  std::vector<LinkUse> uses;
  for (auto& [key, sum] : traffic)
    uses.push_back(
        {key.first, key.second ? LinkKind::Intra : LinkKind::Inter, sum.bytes, union_of(std::move(sum.intervals))});
  return uses;
}

}  // namespace dovetail::reports
