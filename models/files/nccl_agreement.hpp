// SPDX-License-Identifier: Apache-2.0
// Parts of an output of nccl-tests that say the same: ranks by the devices it lists, by counts of elements and by the
// ratio of its two bandwidths; times by themselves and by bandwidths.
#pragma once
#include <optional>

#include "models/files/nccl_run.hpp"

namespace dovetail {

// Sets the ranks and nodes of a run. If its list of devices was shortened, the counts and the devices that are left may
// still tell them. Throws InputError, with the place in the file, where two parts of the output disagree, and where a
// shortened list leaves more than one answer. Counts and ratios say something only of a known collective.
void set_ranks(NcclTestsRun& run, std::optional<Collective> collective);

}  // namespace dovetail
