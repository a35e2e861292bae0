// SPDX-License-Identifier: Apache-2.0
#include "models/price/transforms.hpp"

#include <utility>

namespace dovetail {

PricedSchedule with_durations(const PricedSchedule& priced, IdVector<OpId, Seconds> durations) {
  PricedSchedule result = priced;
  result.fixed = durations;
  result.duration = std::move(durations);
  result.launch = {};
  result.demands.clear();
  result.lists.clear();
  result.first_demand.assign(result.duration.size() + 1, 0);
  result.activities.clear();
  result.first_activity.clear();
  result.speed_changes.clear();
  result.contended = false;
  return result;
}

PricedSchedule without_cost_of(PricedSchedule priced, const std::function<bool(OpKind)>& free) {
  for (const OpId op : priced.duration.ids()) {
    if (!free(priced.schedule->ops[op].kind)) continue;
    priced.fixed[op] = priced.duration[op] = Seconds(0);
    priced.for_each_activity(op, [&](ActivityId activity) {
      for (Demand& demand : priced.demands_of(activity)) demand.seconds = Seconds(0);
    });
  }
  return priced;
}

}  // namespace dovetail
