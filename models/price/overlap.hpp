// What ops that overlap cost each other in an experiment.
#pragma once
#include <span>
#include <string>

#include "models/question/experiment.hpp"

namespace dovetail {

struct Interference;

// The calibration's, or none where the experiment's overlap is ideal.
std::span<const Interference> interference_of(const Experiment& experiment);

// "interfering, 5 assumed factors", "ideal" or "ideal: the calibration has none". A factor is the pair of an entry.
std::string describe_overlap(const Experiment& experiment);

}  // namespace dovetail
