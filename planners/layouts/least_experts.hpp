// SPDX-License-Identifier: Apache-2.0
// The least that the experts of a layer compute, whatever chunks their rows are in and whatever kernel computes them.
#pragma once
#include <algorithm>
#include <vector>

#include "models/price/kernel_price.hpp"
#include "models/price/priced_schedule.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

struct ExpertTimes {
  std::vector<Seconds> by_degree;  // of rows in 1, 2, ... chunks
  Seconds by_peers;                // of the best chunks of groups of ranks
  Seconds memory;                  // of all these: passes over device memory
  Seconds least() const { return std::min(by_peers, std::ranges::min(by_degree)); }
};

class LeastExperts {
 public:
  // `most_degree`: that plans may have. The experiment must live as long.
  LeastExperts(const Experiment& experiment, int most_degree);

  // `op` is that of a layer whose rows are in one chunk, on one stage. Every way of the space is tried: degrees, groups
  // of peers, kernels of equally many rows or of each expert's own, and products of all rows of an expert or of those
  // of each rank. Kernels are priced by their own shapes; their passes over memory by the rate of the largest.
  ExpertTimes of(const PricedSchedule& priced, OpId op, const Experiment& stage, const LayerVolumes& volumes) const;

 private:
  const Experiment& experiment_;
  KernelPrices prices_;
  int most_degree_;
};

}  // namespace dovetail::planners
