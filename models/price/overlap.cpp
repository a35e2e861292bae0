#include "models/price/overlap.hpp"

#include "models/price/calibration.hpp"

namespace dovetail {

std::span<const Interference> interference_of(const Experiment& experiment) {
  if (experiment.overlap == Overlap::Ideal) return {};
  return experiment.calibration->interference;
}

}  // namespace dovetail
