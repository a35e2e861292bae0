#include "models/price/contention.hpp"

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/price/sharing.hpp"

namespace dovetail {
namespace {

// Whether an op of another stream demands a resource of this one too. `user`: the last stream of each resource.
bool meets_another(const PricedSchedule& priced, OpId op, std::vector<StreamId>& user) {
  const StreamId stream = priced.schedule->ops[op].stream;
  bool meets = false;
  priced.for_each_demand(op, [&](const Demand& demand) {
    if (demand.seconds <= Seconds(0)) return;
    const auto r = static_cast<std::size_t>(demand.resource);
    check(r < user.size(), "an op demands a resource that is not there");
    StreamId& last = user[r];
    meets = meets || (last.exists() && last != stream);
    last = stream;
  });
  return meets;
}

}  // namespace

std::vector<bool> shared_resources(const PricedSchedule& priced) {
  std::vector<StreamId> user(priced.resources.size());
  std::vector<bool> shared(priced.resources.size());
  for (const SpeedChange& change : priced.speed_changes) shared[static_cast<std::size_t>(change.resource)] = true;
  for (const OpId i : priced.schedule->ops.ids()) {
    const StreamId stream = priced.schedule->ops[i].stream;
    priced.for_each_demand(i, [&](const Demand& demand) {
      if (demand.seconds <= Seconds(0)) return;
      const auto r = static_cast<std::size_t>(demand.resource);
      check(r < shared.size(), "an op demands a resource that is not there");
      if (user[r] >= 0 && user[r] != stream) shared[r] = true;
      user[r] = stream;
    });
  }
  return shared;
}

bool is_contended(const PricedSchedule& priced) {
  if (!priced.speed_changes.empty()) return true;
  std::vector<StreamId> user(priced.resources.size());
  return std::ranges::any_of(priced.schedule->ops.ids(), [&](OpId op) { return meets_another(priced, op, user); });
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
