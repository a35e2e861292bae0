#include "models/price/overlap.hpp"

#include <algorithm>

namespace dovetail {

std::vector<Interference> interference_of(const Experiment& e, int comm_sms) {
  if (e.overlap == Overlap::Ideal) return {};
  std::vector<Interference> pairs = e.calibration->interference;
  if (comm_sms == 0) return pairs;
  const double left = 1 - static_cast<double>(comm_sms) / e.cluster.device.multiprocessors;
  for (const InterferenceClass kind : {InterferenceClass::Inter, InterferenceClass::Intra}) {
    const auto same = [&](const Interference& pair) { return pair.a == InterferenceClass::Compute && pair.b == kind; };
    const auto known = std::ranges::find_if(pairs, same);
    Interference& pair = known != pairs.end() ? *known : pairs.emplace_back();
    pair.a = InterferenceClass::Compute;
    pair.b = kind;
    pair.a_speed = left;
    pair.b_speed = 1;
  }
  return pairs;
}

}  // namespace dovetail
