// The interference that counts in an experiment.
#pragma once
#include <vector>

#include "models/price/calibration.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// The calibration's, or none where the experiment's overlap is ideal. If `comm_sms` (of a plan) is above 0, computation
// beside communication keeps the share of the device's multiprocessors that communication leaves.
std::vector<Interference> interference_of(const Experiment& experiment, int comm_sms = 0);

}  // namespace dovetail
