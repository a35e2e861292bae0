// SPDX-License-Identifier: Apache-2.0
#include "exec/device/deferred/trace.hpp"

#include <algorithm>
#include <utility>

namespace dovetail::exec::deferred {

void Ranges::close(Range instead) {
  Range& oldest = open_[oldest_];
  if (oldest.first != oldest.last) closed_.push_back(oldest);
  oldest = instead;
  oldest_ = (oldest_ + 1) % open_.size();
}

std::vector<Range> Ranges::take() {
  for (std::size_t i = 0; i < open_.size(); ++i) close({});
  std::ranges::sort(closed_, {}, &Range::first);
  std::vector<Range> merged;
  for (const Range& range : closed_)
    if (!merged.empty() && range.first <= merged.back().last)
      merged.back().last = std::max(merged.back().last, range.last);
    else
      merged.push_back(range);
  closed_.clear();
  return merged;
}

}  // namespace dovetail::exec::deferred
