// SPDX-License-Identifier: Apache-2.0
// The figures that a step achieves: tokens and model flops a second, and the share in which ranks wait.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "models/question/experiment.hpp"
#include "models/time/timeline.hpp"

namespace dovetail {

struct Throughput {
  std::int64_t samples = 0, tokens = 0;  // of a step, over all data-parallel groups
  double tokens_per_second = 0, of_gpu = 0;
  FlopsPerSecond model_flops;       // of a GPU, by model_flops()
  std::optional<double> mfu;        // those over the peak of the products' format; none: the device states no peak
  double exposed = 0, waiting = 0;  // shares of a rank's step, see Metrics; computation has the rest
};
Throughput throughput(const Experiment& experiment, const Metrics& metrics);

// A note on a step that does more model flops than its devices can do; none: it does not.
std::optional<std::string> beyond_peak(const std::string& name, const Throughput& step, const Experiment& experiment);

}  // namespace dovetail
