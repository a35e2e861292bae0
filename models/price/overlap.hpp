// SPDX-License-Identifier: Apache-2.0
// The interference that counts in an experiment.
#pragma once
#include <span>
#include <vector>

#include "models/price/calibration.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// The calibration's, or none where the experiment's overlap is ideal.
std::vector<Interference> interference_of(const Experiment& experiment);

// The same without entries of other all-to-alls than a plan's. If its `comm_sms` is above 0, computation beside
// communication keeps the share of the device's multiprocessors that communication leaves.
std::vector<Interference> interference_of(const Experiment& experiment, AllToAll all_to_all, int comm_sms);

// The entries of `all` that count for all-to-alls with these messages.
std::vector<Interference> of_all_to_alls(std::span<const Interference> all, Protocol messages);

}  // namespace dovetail
