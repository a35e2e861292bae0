// SPDX-License-Identifier: Apache-2.0
#include "exec/step/row_placement.hpp"

#include <algorithm>
#include <set>

namespace dovetail::exec {
namespace {

std::set<int> shadowed_experts(const Schedule& schedule) {
  std::set<int> experts;
  for (const Tensor& t : schedule.tensors)
    if (t.expert >= 0) experts.insert(t.expert);
  return experts;
}

}  // namespace

RowPlacement row_placement(const Experiment& e, const Schedule& schedule, int rank) {
  const Parallelism& groups = schedule.groups;
  const std::vector<int> members = group_members(groups, GroupKind::Ep, rank);
  const std::set<int> shadowed = shadowed_experts(schedule);
  const std::int64_t local = e.model.experts / e.parallelism.ep;
  RowPlacement rows;
  rows.peers = groups.ep;
  rows.own = std::ranges::find(members, rank) - members.begin();
  rows.repeats = groups.ep / e.parallelism.ep;
  std::int64_t position = 0;
  for (int expert = 0; expert < e.model.experts; ++expert) {
    const std::int64_t owner = expert / local;
    if (expert % local == 0) position = 0;
    const bool stays = shadowed.contains(expert);
    rows.places.push_back({owner, stays ? -1 : position});
    if (stays) continue;
    if (owner == rows.own / rows.repeats) rows.dispatched.push_back(expert % local);
    rows.positions = std::max(rows.positions, ++position);
  }
  return rows;
}

}  // namespace dovetail::exec
