#include "models/results/tuning.hpp"

#include <algorithm>

namespace dovetail {

Bytes TunedPlan::peak() const {
  return stage_peaks.empty() ? Bytes(0) : std::ranges::max(stage_peaks);
}

}  // namespace dovetail
