// SPDX-License-Identifier: Apache-2.0
// Predictions of steps whose exchanges are held to their modelled times while kernels are real.
#pragma once
#include <vector>

#include "models/plan/plan.hpp"
#include "models/price/interference.hpp"
#include "models/price/priced_schedule.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::bench {

// Kept speeds where nothing slows an exchange: exchanges keep all of theirs, and entries of two kinds of exchange, or
// of three kinds of which one is an exchange, are left out.
std::vector<Interference> beside_held(const std::vector<Interference>& interference);

// The step as such a run is predicted to go. With ideal overlap every op takes its own duration whatever runs beside
// it. Otherwise exchanges do, and computation and copies keep the speed that the calibration's pairs give them while
// any exchange runs (the least, where several run), and beside each other. `priced`: of this plan, on no described
// network.
PricedSchedule with_held_exchanges(const Experiment& experiment, const Plan& plan, const PricedSchedule& priced);

}  // namespace dovetail::bench
