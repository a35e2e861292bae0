// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/slow_links.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/price/calibration.hpp"

namespace dovetail::bench {
namespace {

// Every term of these laws is a time per message, rank or row, or bytes over a bandwidth. So the law and the points
// take `slowdown` times as long together, and shapes keep their ratio to the law.
KernelTable slowed(const KernelTable& table, double slowdown) {
  std::vector<double> law = table.law();
  const auto parameters = law_of(table.kind()).parameters;
  for (std::size_t i = 0; i < law.size(); ++i) {
    const bool bandwidth = parameters[i].meaning.starts_with("GB/s");
    law[i] = bandwidth ? law[i] / slowdown : law[i] * slowdown;
  }
  std::vector<MeasuredKernel> points = table.points();
  for (MeasuredKernel& point : points) point.time = point.time * slowdown;
  KernelTable slow(table.kind(), table.dtype(), std::move(law), std::move(points));
  slow.error = table.error;
  slow.provenance = table.provenance;
  return slow;
}

template <class Cost>
void slow(Cost& cost, double slowdown) {
  cost.alpha = cost.alpha * slowdown;
  cost.beta = cost.beta * slowdown;
  if (cost.outside.alpha) cost.outside.alpha = *cost.outside.alpha * slowdown;
  if (cost.outside.beta) cost.outside.beta = *cost.outside.beta * slowdown;
}

}  // namespace

bool exchanges(KernelKind kind) {
  return is_collective(kind) || kind == KernelKind::Dispatch || kind == KernelKind::Combine;
}

void slow_links(Calibration& calibration, double slowdown, Copies copies) {
  if (slowdown == 1) return;
  for (CollectiveCost& cost : calibration.collectives) {
    slow(cost, slowdown);
    if (cost.latency) {
      cost.latency->inside = cost.latency->inside * slowdown;
      cost.latency->between = cost.latency->between * slowdown;
    }
  }
  for (MessageCost& cost : calibration.messages) {
    cost.per_message = cost.per_message * slowdown;
    cost.bandwidth = cost.bandwidth / slowdown;
    cost.peer_bandwidth = cost.peer_bandwidth / slowdown;
  }
  for (KernelTable& table : calibration.tables)
    if (exchanges(table.kind())) table = slowed(table, slowdown);
  if (calibration.copy && copies == Copies::Slowed) slow(*calibration.copy, slowdown);
}

}  // namespace dovetail::bench
