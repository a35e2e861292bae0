// SPDX-License-Identifier: Apache-2.0
// Follows a running schedule: which activities may begin and which ops are over.
#pragma once
#include "models/price/priced_schedule.hpp"

namespace dovetail {

class ActivityProgress {
 public:
  explicit ActivityProgress(const PricedSchedule& priced);

  // The fixed time of an op has passed: begin(activity) for each that waited for nothing else; end(op) if it has none.
  template <class Begin, class End>
  void fixed_passed(OpId op, Begin begin, End end) {
    if (owners_.empty()) return begin(PricedSchedule::only_activity(op));
    if (left_[op] == 0) return end(op);
    priced_.for_each_activity(op, [&](ActivityId activity) {
      if (--owners_[activity].waiting == 0) begin(activity);
    });
  }

  // An activity has ended: end(op) for each op that is over with it.
  template <class End>
  void ended(ActivityId activity, End end) {
    if (owners_.empty()) return end(PricedSchedule::only_op(activity));
    const Owners& of = owners_[activity];
    for (std::int32_t i = of.first; i < of.last; ++i) {
      const OpId op = owner_[static_cast<std::size_t>(i)];
      if (--left_[op] == 0) end(op);
    }
  }

 private:
  struct Owners {  // ops that an activity belongs to
    std::int32_t first = 0, last = 0;
    int waiting = 0;  // those whose fixed time has not passed
  };

  const PricedSchedule& priced_;
  IdVector<ActivityId, Owners> owners_;  // empty: each op has one activity, which has its number
  std::vector<OpId> owner_;              // Owners index this
  IdVector<OpId, std::int32_t> left_;    // activities that have not ended
};

}  // namespace dovetail
