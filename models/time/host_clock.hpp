// SPDX-License-Identifier: Apache-2.0
// When hosts issue ops (priced_schedule.hpp), for backends that go through time event by event.
#pragma once
#include <algorithm>
#include <memory>
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
    if (takes_time() && order_->waits[op]) issue_from(order_->next[op], std::max(issued_[op], now));
  }

 private:
  // Apart from the ops, which are large. Copies of a clock share it.
  struct Order {
    IdVector<OpId, OpId> next;  // of the same class
    IdVector<OpId, bool> waits;
  };
  void issue_from(OpId op, Seconds clock);  // up to the next host wait of its class

  const IdVector<OpId, Seconds>* launch_;
  IdVector<OpId, Seconds> issued_;
  std::shared_ptr<const Order> order_;
};

}  // namespace dovetail
