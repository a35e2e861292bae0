// SPDX-License-Identifier: Apache-2.0
#include "models/time/host_clock.hpp"

namespace dovetail {

HostClock::HostClock(const PricedSchedule& priced) : launch_(&priced.launch), issued_(priced.launch.size()) {
  const Schedule& s = *priced.schedule;
  Order order;
  order.next.resize(issued_.size());
  order.waits.resize(issued_.size());
  std::vector<OpId> first(s.classes.size()), last(s.classes.size());
  for (const OpId op : issued_.ids()) {
    const auto c = static_cast<std::size_t>(s.class_of(s.ops[op]));
    (last[c].exists() ? order.next[last[c]] : first[c]) = op;
    last[c] = op;
    order.waits[op] = std::holds_alternative<HostWait>(*s.ops[op].work);
  }
  order_ = std::make_shared<const Order>(std::move(order));
  for (const OpId op : first) issue_from(op, Seconds(0));
}

void HostClock::issue_from(OpId op, Seconds clock) {
  for (; op.exists(); op = order_->next[op]) {
    issued_[op] = clock += (*launch_)[op];
    if (order_->waits[op]) return;
  }
}

}  // namespace dovetail
