// SPDX-License-Identifier: Apache-2.0
#include "models/time/activity_progress.hpp"

namespace dovetail {

ActivityProgress::ActivityProgress(const PricedSchedule& priced) : priced_(priced) {
  if (priced.first_activity.empty()) return;
  owners_.resize(priced.activity_count());
  for (ActivityId a : priced.activities) ++owners_[a].waiting;
  std::int32_t first = 0;
  for (Owners& of : owners_) {
    of.first = of.last = first;
    first += of.waiting;
  }
  owner_.resize(priced.activities.size());
  left_.resize(priced.fixed.size());
  for (const OpId op : left_.ids())
    priced.for_each_activity(op, [&](ActivityId a) {
      ++left_[op];
      owner_[static_cast<std::size_t>(owners_[a].last++)] = op;
    });
}

}  // namespace dovetail
