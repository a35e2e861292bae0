// SPDX-License-Identifier: Apache-2.0
// The price of one operator by itself, as the pricing of a step finds that of its parts.
#pragma once
#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/question/experiment.hpp"
#include "models/schedule/kernel_shape.hpp"

namespace dovetail::bench {

struct OperatorWork {
  KernelShape shape;
  DType dtype = DType::Bf16;
  int ranks = 1;                        // of an exchange: all GPUs of as few nodes as they need
  std::int64_t experts = 0, top_k = 0;  // of dispatch and combine, whose tokens choose all experts alike
};

// Throws InputError unless they divide a node's GPUs or fill whole nodes.
void require_places(int ranks, const Cluster& cluster);

// `sustained`: under the load of a training. Described networks do not count. Throws InputError where the calibration
// lacks a cost.
Seconds operator_seconds(const OperatorWork& work, const Cluster& cluster, const Calibration& costs, bool sustained);

}  // namespace dovetail::bench
