// When hosts issue ops (priced_schedule.hpp), for backends that go through time event by event.
#pragma once
#include <algorithm>
#include <vector>

#include "models/price/priced_schedule.hpp"

namespace dovetail {

// The hosts of all classes of ranks.
class HostClock {
 public:
  explicit HostClock(const PricedSchedule& priced);

  bool takes_time() const { return !issued_.empty(); }

  // The time from which an op may begin, where launches take time. All host waits of its class before it must have
  // ended.
  Seconds issued(OpId op) const { return issued_[op]; }

  // An op has ended. Ops of its class that follow a host wait are issued from then on.
  void ended(OpId op, Seconds now) {
    if (waits_ && std::holds_alternative<HostWait>(priced_->schedule->ops[op].work))
      issue_after(op, std::max(issued_[op], now));
  }

 private:
  void issue_after(OpId wait, Seconds clock);  // up to the next host wait of its class

  const PricedSchedule* priced_;
  IdVector<OpId, Seconds> issued_;
  bool waits_ = false;  // some op is a host wait, and launches take time
};

}  // namespace dovetail
