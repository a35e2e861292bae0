// The interference that counts in an experiment.
#pragma once
#include <span>

#include "models/question/experiment.hpp"

namespace dovetail {

struct Interference;

// The calibration's, or none where the experiment's overlap is ideal.
std::span<const Interference> interference_of(const Experiment& experiment);

}  // namespace dovetail
