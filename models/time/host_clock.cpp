#include "models/time/host_clock.hpp"

namespace dovetail {

HostClock::HostClock(const PricedSchedule& priced) : priced_(&priced), issued_(priced.launch.size()) {
  const Schedule& s = *priced.schedule;
  std::vector<Seconds> clocks(s.classes.size());
  std::vector<bool> waiting(s.classes.size());
  for (const OpId op : issued_.ids()) {
    const auto c = static_cast<std::size_t>(s.class_of(s.ops[op]));
    if (waiting[c]) continue;
    issued_[op] = clocks[c] += priced.launch[op];
    waiting[c] = std::holds_alternative<HostWait>(s.ops[op].work);
    waits_ = waits_ || waiting[c];
  }
}

void HostClock::issue_after(OpId wait, Seconds clock) {
  const Schedule& s = *priced_->schedule;
  const int rank_class = s.class_of(s.ops[wait]);
  for (OpId op(wait + 1); op < s.ops.size(); ++op) {
    if (s.class_of(s.ops[op]) != rank_class) continue;
    issued_[op] = clock += priced_->launch[op];
    if (std::holds_alternative<HostWait>(s.ops[op].work)) return;
  }
}

}  // namespace dovetail
