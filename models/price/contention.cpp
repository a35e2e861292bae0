// SPDX-License-Identifier: Apache-2.0
#include "models/price/contention.hpp"

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/price/sharing.hpp"

namespace dovetail {
namespace {

// visit(resource) for each resource of an op that an earlier op of another stream demands too. `user`: the last stream
// of each resource.
template <class Visit>
void for_each_meeting(const PricedSchedule& priced, OpId op, std::vector<StreamId>& user, Visit visit) {
  const StreamId stream = priced.schedule->ops[op].stream;
  priced.for_each_demand(op, [&](const Demand& demand) {
    if (demand.seconds <= Seconds(0)) return;
    const auto r = static_cast<std::size_t>(demand.resource);
    check(r < user.size(), "an op demands a resource that is not there");
    if (user[r].exists() && user[r] != stream) visit(r);
    user[r] = stream;
  });
}

}  // namespace

std::vector<bool> shared_resources(const PricedSchedule& priced) {
  std::vector<StreamId> user(priced.resources.size());
  std::vector<bool> shared(priced.resources.size());
  for (const SpeedChange& change : priced.speed_changes) shared[static_cast<std::size_t>(change.resource)] = true;
  for (const OpId op : priced.schedule->ops.ids())
    for_each_meeting(priced, op, user, [&](std::size_t resource) { shared[resource] = true; });
  return shared;
}

// Most schedules that are contended show it within their first ops.
bool is_contended(const PricedSchedule& priced) {
  if (!priced.speed_changes.empty()) return true;
  std::vector<StreamId> user(priced.resources.size());
  return std::ranges::any_of(priced.schedule->ops.ids(), [&](OpId op) {
    bool meets = false;
    for_each_meeting(priced, op, user, [&](std::size_t) { meets = true; });
    return meets;
  });
}

std::vector<Seconds> ends_together(const PricedSchedule& priced, std::span<const ActivityId> activities) {
  Sharing sharing(priced);
  std::vector<Seconds> ends(activities.size());
  for (ActivityId activity : activities)
    if (demands_something(priced.demands_of(activity))) sharing.begin(activity);
  while (!sharing.idle())
    sharing.advance(sharing.next(), [&](ActivityId ended) {
      for (std::size_t i = 0; i < activities.size(); ++i)
        if (activities[i] == ended) ends[i] = Seconds(sharing.now());
    });
  return ends;
}

}  // namespace dovetail
