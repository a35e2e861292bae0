// SPDX-License-Identifier: Apache-2.0
// Runs a contended schedule whose ops are of few kinds. Ops of one kind demand the same resources in the same
// proportions, so that the mix of the kinds that run together says how fast each is. Rates are worked out once for each
// mix, and an event costs no more than a look at the streams of a rank class.
#pragma once
#include <optional>

#include "models/time/timeline.hpp"

namespace dovetail {

// The end of the last op, by the rule of run_sharing; `ops`, if given, is told when each runs. None: the schedule has
// activities that ops share, speeds that change, resources of several rank classes, or too many kinds.
std::optional<Seconds> run_mixes(const PricedSchedule& priced, IdVector<OpId, Interval>* ops);

}  // namespace dovetail
