#include "models/time/activity_progress.hpp"

namespace dovetail {

ActivityProgress::ActivityProgress(const PricedSchedule& priced) : priced_(priced) {
  if (priced.first_activity.empty()) return;
  owners_.resize(priced.activity_count());
  for (ActivityId a : priced.activities) ++owners_[static_cast<std::size_t>(a)].waiting;
  std::int32_t first = 0;
  for (Owners& of : owners_) {
    of.first = of.last = first;
    first += of.waiting;
  }
  owner_.resize(priced.activities.size());
  left_.resize(priced.fixed.size());
  for (std::size_t op = 0; op < left_.size(); ++op)
    priced.for_each_activity(static_cast<OpId>(op), [&](ActivityId a) {
      ++left_[op];
      owner_[static_cast<std::size_t>(owners_[static_cast<std::size_t>(a)].last++)] = static_cast<OpId>(op);
    });
}

}  // namespace dovetail
