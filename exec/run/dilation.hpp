// SPDX-License-Identifier: Apache-2.0
// By how much to stretch modelled times so that the real work fits into them, and the prediction that goes with it.
#pragma once
#include <vector>

#include "models/price/price.hpp"

namespace dovetail::exec {

// The ops that are held to their modelled times, and the time that each really takes here.
struct Emulated {
  IdVector<OpId, bool> held;
  IdVector<OpId, Seconds> work;  // real work
};

// How late real work may end without counting as an overrun: 1 % of the step, at least 200 us. The ops after it,
// which are at most half full, catch up.
Seconds overrun_tolerance(const PricedSchedule& stretched);

// The priced schedule in wall seconds: held ops `dilation` times their modelled time, the others their work.
PricedSchedule stretch(const PricedSchedule& priced, const Emulated& emulated, double dilation);

// The smallest factor >= 1 (within 1 %) at which no held op would end later than the tolerance after its deadline
// even if all work took twice as long: work fills at most half of the ops, but for short ones between long ones.
// 1 where no factor does, since the held ops are free.
double choose_dilation(const PricedSchedule& priced, const Emulated& emulated);

}  // namespace dovetail::exec
