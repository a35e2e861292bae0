// SPDX-License-Identifier: Apache-2.0
#include "models/results/tuning.hpp"

namespace dovetail {

double gpu_hours(const SystemResult& plan, double tokens) {
  constexpr double seconds_of_hour = 3600;
  return tokens / plan.throughput.of_gpu / seconds_of_hour;
}

double megawatt_hours(const SystemResult& plan, double tokens, double gpu_watts) {
  return gpu_hours(plan, tokens) * gpu_watts / 1e6;
}

}  // namespace dovetail
