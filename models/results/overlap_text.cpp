// SPDX-License-Identifier: Apache-2.0
#include "models/results/overlap_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/price/calibration.hpp"
#include "models/price/overlap.hpp"

namespace dovetail {

std::string describe_overlap(const Experiment& experiment) {
  if (experiment.overlap == Overlap::Ideal) return "ideal";
  const std::vector<Interference> pairs = interference_of(experiment);
  if (pairs.empty()) return "ideal: the calibration has none";
  const auto assumed =
      std::ranges::count_if(pairs, [](const Interference& pair) { return pair.provenance.origin == Origin::Assumed; });
  return fmt::format("interfering, {} assumed factor{}", assumed, assumed == 1 ? "" : "s");
}

}  // namespace dovetail
