// SPDX-License-Identifier: Apache-2.0
#include "models/results/throughput.hpp"

#include <fmt/format.h>

#include "models/price/calibration.hpp"
#include "models/question/model_flops.hpp"

namespace dovetail {

Throughput throughput(const Experiment& e, const Metrics& metrics) {
  Throughput t;
  const double step = metrics.makespan.value(), gpus = e.cluster.gpus();
  t.samples = std::int64_t{e.workload.batch} * e.parallelism.dp;
  t.tokens = t.samples * e.workload.sequence;
  if (step <= 0) return t;
  t.tokens_per_second = static_cast<double>(t.tokens) / step;
  t.of_gpu = t.tokens_per_second / gpus;
  t.model_flops = FlopsPerSecond(model_flops(e).per_token() * t.of_gpu);
  const auto peak = e.cluster.device.peak.find(e.workload.products.value_or(e.workload.dtype));
  if (peak != e.cluster.device.peak.end()) t.mfu = t.model_flops / peak->second;
  t.exposed = metrics.exposed_communication.value() / step;
  t.waiting = metrics.waiting.value() / step;
  return t;
}

std::optional<std::string> beyond_peak(const std::string& name, const Throughput& step, const Experiment& e) {
  if (step.mfu.value_or(0) <= 1) return {};
  return fmt::format(
      "{}: an MFU of {:.3g} % is more than a {} can do: costs of calibration {} or the peak that {} states are wrong",
      name, 100 * *step.mfu, e.cluster.device.name, e.calibration->name, e.cluster.name);
}

}  // namespace dovetail
