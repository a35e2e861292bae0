// SPDX-License-Identifier: Apache-2.0
// A schedule with its costs: what each op demands of which resource, in seconds. Backends run it and know no cost
// model.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Exclusive use of a unit-speed resource. An activity progresses on all its demands together, so alone it takes
// max(seconds); `multiplicity` flows share fairly with those of other activities.
struct Demand {
  int resource = 0;
  Seconds seconds;
  int multiplicity = 1;
};

// An activity is the part of an op after its fixed time. It may belong to ops of several rank classes (a flow between
// them).
using ActivityId = Id<struct ActivityKey>;

// From then on a resource has this speed in place of its last one (1 at first).
struct SpeedChange {
  int resource = 0;
  Seconds at;
  double speed = 1;  // above 0, at most 1
};

// An activity begins when the fixed time of every op that it belongs to has passed; an op ends when its fixed time has
// passed and all its activities have ended.
//
// The host of a rank class issues its ops in program order, beginning at time 0 and taking `launch` for each. No op
// begins before it is issued. After a HostWait, on which all later ops of its class depend, the host goes on when that
// op has ended.
class PricedSchedule {
 public:
  std::shared_ptr<const Schedule> schedule;
  std::vector<std::string> resources;
  std::size_t physical = 0;          // the first ones exist; those after them stand for contention
  IdVector<OpId, Seconds> fixed;     // per op: latency that uses no resource
  IdVector<OpId, Seconds> duration;  // per op: while nothing runs but it and what shares its activities
  IdVector<OpId, Seconds> launch;    // per op: what the host takes to issue it (below); empty: none takes any
  std::vector<Demand> demands;
  std::vector<std::int32_t> first_demand;    // by list of demands, size lists + 1
  std::vector<std::int32_t> lists;           // by activity: which of those; empty: activity i has list i
  std::vector<ActivityId> activities;        // of one op after the other; empty: op i has activity i alone
  std::vector<std::int32_t> first_activity;  // size ops + 1, or empty
  std::vector<SpeedChange> speed_changes;    // by time
  bool contended = false;                    // durations do not say it all: see contention.hpp

  std::span<const Demand> demands_of(ActivityId activity) const {
    const std::size_t i = list_of(activity);
    return {demands.data() + first_demand[i], demands.data() + first_demand[i + 1]};
  }
  // The same to change, for all activities that share the list.
  std::span<Demand> demands_of(ActivityId activity) {
    const std::size_t i = list_of(activity);
    return {demands.data() + first_demand[i], demands.data() + first_demand[i + 1]};
  }

  std::size_t activity_count() const {
    if (!lists.empty()) return lists.size();
    return first_demand.empty() ? 0 : first_demand.size() - 1;
  }

  // If first_activity is empty, each op has one activity, which has the op's number.
  static ActivityId only_activity(OpId op) { return ActivityId(std::int32_t{op}); }
  static OpId only_op(ActivityId activity) { return OpId(std::int32_t{activity}); }

  // visit(ActivityId) for each activity of an op.
  template <class Visit>
  void for_each_activity(OpId op, Visit visit) const {
    if (first_activity.empty()) return visit(only_activity(op));
    const auto i = static_cast<std::size_t>(op);
    for (std::int32_t a = first_activity[i]; a < first_activity[i + 1]; ++a)
      visit(activities[static_cast<std::size_t>(a)]);
  }

  // visit(const Demand&) for each demand of each activity of an op.
  template <class Visit>
  void for_each_demand(OpId op, Visit visit) const {
    for_each_activity(op, [&](ActivityId activity) {
      for (const Demand& demand : demands_of(activity)) visit(demand);
    });
  }

 private:
  std::size_t list_of(ActivityId activity) const {
    const auto i = static_cast<std::size_t>(activity);
    return lists.empty() ? i : static_cast<std::size_t>(lists[i]);
  }
};

}  // namespace dovetail
