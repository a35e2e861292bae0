// SPDX-License-Identifier: Apache-2.0
// The sizes that a calibration measures on a GPU.
#pragma once
#include "exec/run/calibrate.hpp"

namespace dovetail::exec {

// Ops of about a tenth of a millisecond to a millisecond on a large GPU. Quick: fewer of them.
CalibrationGrid gpu_grid(bool quick);

// A dozen points that tell whether a GPU does what all the others need, within half a minute: products made for all
// multiprocessors and for fewer, alone and beside exchanges; copies; attention.
CalibrationGrid first_gpu_grid();

}  // namespace dovetail::exec
