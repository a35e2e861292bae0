// When a host issues ops (priced_schedule.hpp), for backends that go through time event by event.
#pragma once
#include <algorithm>
#include <vector>

#include "models/price/priced_schedule.hpp"

namespace dovetail {

class HostClock {
 public:
  HostClock(const PricedSchedule& priced, int rank_class);

  // The time from which an op of the class may begin. All host waits before it must have ended.
  Seconds issued(OpId op) const { return issued_[op]; }

  // An op of the class has ended. Ops that follow a host wait are issued from then on.
  void ended(OpId op, Seconds now) {
    if (std::holds_alternative<HostWait>(priced_->schedule->ops[op].work))
      issue_after(OpId(op + 1), std::max(issued_[op], now));
  }

 private:
  void issue_after(OpId first, Seconds clock);  // up to the next host wait

  const PricedSchedule* priced_;
  int rank_class_;
  IdVector<OpId, Seconds> issued_;
};

// One for each class; none where launches take no time.
std::vector<HostClock> host_clocks(const PricedSchedule& priced);

}  // namespace dovetail
