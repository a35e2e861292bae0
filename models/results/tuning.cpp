// SPDX-License-Identifier: Apache-2.0
#include "models/results/tuning.hpp"

#include <algorithm>

namespace dovetail {

Bytes TunedPlan::peak() const {
  return stage_peaks.empty() ? Bytes(0) : std::ranges::max(stage_peaks);
}

double gpu_hours(const TunedPlan& plan, double tokens) {
  constexpr double seconds_of_hour = 3600;
  return tokens / plan.throughput.of_gpu / seconds_of_hour;
}

double megawatt_hours(const TunedPlan& plan, double tokens, double gpu_watts) {
  return gpu_hours(plan, tokens) * gpu_watts / 1e6;
}

}  // namespace dovetail
