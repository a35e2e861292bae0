// SPDX-License-Identifier: Apache-2.0
#include "models/price/overlap.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dovetail {
namespace {

// Computation keeps `left` of its speed beside each kind of communication, which keeps all of its own.
void leave_multiprocessors(double left, std::vector<Interference>& entries) {
  for (const InterferenceClass kind : {InterferenceClass::Inter, InterferenceClass::Intra}) {
    Interference pair{InterferenceClass::Compute, kind, left, 1, {}};
    const auto same = [&](const Interference& entry) { return same_kinds(entry, pair); };
    if (const auto known = std::ranges::find_if(entries, same); known != entries.end())
      pair.provenance = known->provenance;
    std::erase_if(entries, same);
    entries.push_back(std::move(pair));
  }
}

}  // namespace

std::vector<Interference> interference_of(const Experiment& e) {
  return e.overlap == Overlap::Ideal ? std::vector<Interference>() : e.calibration->interference;
}

std::vector<Interference> interference_of(const Experiment& e, AllToAll all_to_all, int comm_sms) {
  std::vector<Interference> entries = interference_of(e);
  std::erase_if(entries, [&](const Interference& entry) { return entry.all_to_all && entry.all_to_all != all_to_all; });
  if (comm_sms > 0 && e.overlap != Overlap::Ideal)
    leave_multiprocessors(1 - static_cast<double>(comm_sms) / e.cluster.device.multiprocessors, entries);
  return entries;
}

std::vector<Interference> of_all_to_alls(std::span<const Interference> all, Protocol messages) {
  std::vector<Interference> counting;
  std::ranges::copy_if(all, std::back_inserter(counting),
                       [&](const Interference& entry) { return counts_for(entry, all, messages); });
  return counting;
}

}  // namespace dovetail
