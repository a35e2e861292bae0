#include "models/time/host_clock.hpp"

namespace dovetail {

HostClock::HostClock(const PricedSchedule& priced, int rank_class)
    : priced_(&priced), rank_class_(rank_class), issued_(priced.launch.size()) {
  issue_after(OpId(0), Seconds(0));
}

void HostClock::issue_after(OpId first, Seconds clock) {
  const Schedule& s = *priced_->schedule;
  for (OpId op = first; op < s.ops.size(); ++op) {
    if (s.class_of(s.ops[op]) != rank_class_) continue;
    issued_[op] = clock += priced_->launch[op];
    if (std::holds_alternative<HostWait>(s.ops[op].work)) return;
  }
}

std::vector<HostClock> host_clocks(const PricedSchedule& priced) {
  std::vector<HostClock> hosts;
  if (priced.launch.empty()) return hosts;
  for (int c = 0; c < static_cast<int>(priced.schedule->classes.size()); ++c) hosts.emplace_back(priced, c);
  return hosts;
}

}  // namespace dovetail
